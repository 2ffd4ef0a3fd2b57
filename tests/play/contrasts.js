// Contrast ratios of all visible texts by WCAG 2.2: [[ratio, name], …]. Text over translucent layers is composited first.
() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const paint = canvas.getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const luminance = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const layers = [];
    for (let node = element; node; node = node.parentElement) layers.push(rgba(getComputedStyle(node).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const ownText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!ownText || !element.checkVisibility({ visibilityProperty: true })) continue;
    if (element.closest(".visually-hidden, .skip, script, noscript")) continue;
    // WCAG exempts controls that cannot be used; the actions are measured nevertheless.
    if (element.closest("button:disabled") && !element.closest("#actions")) continue;
    const svg = element instanceof SVGElement;
    const style = getComputedStyle(element);
    const ground = behind(svg ? element.closest("#arena") : element);
    const text = over(rgba(svg ? style.fill : style.color), ground);
    const [high, low] = [luminance(text), luminance(ground)].sort((a, b) => b - a);
    const name = element.id || element.className.baseVal || element.className || element.tagName;
    found.push([(high + 0.05) / (low + 0.05), `${name}: ${element.textContent.trim().slice(0, 30)}`]);
  }
  return found;
}
