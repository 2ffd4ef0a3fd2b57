"""A window that shows pictures, for ``render_mode="human"``."""

import gymnasium


class Window:
    """One matplotlib figure. Without a display (a backend without windows) it warns once and shows nothing.

    Parameters
    ----------
    title : str
    pause : float, seconds for which every picture stays, and in which the window reacts
    """

    def __init__(self, title, pause):
        from matplotlib import backend_bases, pyplot  # only for those who want a window

        self._pyplot = pyplot
        self._pause = pause
        self._image = None
        with pyplot.ioff():
            self._figure = pyplot.figure(num=None, layout="tight")
        manager = self._figure.canvas.manager
        self._has_windows = type(manager) is not backend_bases.FigureManagerBase  # which opens none
        if not self._has_windows:
            gymnasium.logger.warn(
                f"render: matplotlib's backend {pyplot.get_backend()!r} opens no window; use render_mode='rgb_array'"
            )
            pyplot.close(self._figure)
            return
        manager.set_window_title(title)
        self._axes = self._figure.add_subplot()
        self._axes.set_axis_off()
        pyplot.show(block=False)

    @property
    def is_open(self):
        return self._has_windows and self._pyplot.fignum_exists(self._figure.number)

    def show(self, image):
        """Show an RGB array (uint8 (H, W, 3)); nothing once the user has closed the window."""
        if not self.is_open:
            return
        if self._image is None or self._image.get_array().shape != image.shape:
            self._axes.clear()
            self._axes.set_axis_off()
            self._image = self._axes.imshow(image, interpolation="nearest")
        else:
            self._image.set_data(image)
        self._figure.canvas.draw_idle()
        self._figure.canvas.start_event_loop(self._pause)

    def close(self):
        self._pyplot.close(self._figure)
