"""Pictures and text of levels. The tiles are drawn here, pixel by pixel; no image file is read.

``draw_level`` gives one level as an RGB array, ``gallery`` lays out many on one sheet (add labels with matplotlib if
they are wanted), ``to_text`` and ``from_text`` give a level as lines of characters. Levels are arrays of a game's own
tile numbers, [y, x].
"""

from __future__ import annotations

from functools import cache

import numpy as np

from metapcg.games import Game, get_game
from metapcg.games import tiles as codes

TILE_SIZE = 16
"""Height and width of a drawn tile in pixels (before ``scale``)."""

COLOURS = {
    "f": (226, 214, 183),  # floor
    "g": (214, 201, 167),  # floor, darker grain
    "h": (235, 225, 198),  # floor, lighter grain
    "w": (96, 105, 128),  # brick
    "v": (121, 131, 155),  # brick, lit edge
    "u": (74, 81, 101),  # brick, shaded edge
    "m": (51, 56, 72),  # mortar
    "o": (38, 41, 53),  # outside
    "p": (50, 54, 69),  # outside, hatching
    "k": (35, 28, 36),  # outline
    "s": (240, 196, 158),  # skin
    "b": (54, 111, 196),  # tunic
    "c": (88, 152, 232),  # tunic, lit
    "r": (122, 72, 40),  # hair, boots
    "y": (247, 197, 49),  # gold
    "Y": (255, 233, 141),  # gold, lit
    "z": (188, 132, 22),  # gold, shaded
    "d": (137, 88, 47),  # door wood
    "e": (168, 114, 64),  # door wood, lit
    "a": (103, 64, 33),  # wood, shaded
    "t": (199, 144, 82),  # crate wood
    "T": (222, 173, 110),  # crate wood, lit
    "q": (110, 66, 158),  # bat
    "Q": (153, 106, 203),  # bat, lit
    "R": (212, 56, 56),  # red
    "P": (247, 134, 123),  # red, lit
    "O": (224, 112, 38),  # scorpion
    "N": (170, 74, 20),  # scorpion, shaded
    "x": (62, 58, 72),  # spider
    "X": (98, 93, 112),  # spider, lit
    "W": (255, 255, 255),  # white
}
"""RGB of every letter in the sprites."""

SPRITES = {
    codes.EMPTY: """
        ffffffffffffffff
        ffffffffffhfffff
        ffgfffffffffffff
        ffffffffffffffgf
        ffffffhfffffffff
        ffffffffffffffff
        fhffffffffgfffff
        ffffffffffffffff
        ffffgfffffffffhf
        ffffffffffffffff
        ffffffffhfffffff
        ffgfffffffffffff
        ffffffffffffgfff
        ffffffgfffffffff
        fhffffffffffffff
        ffffffffffhfffff""",
    codes.SOLID: """
        vvvvvvvmvvvvvvvm
        vwwwwwumvwwwwwum
        vwwwwwumvwwwwwum
        uuuuuuumuuuuuuum
        mmmmmmmmmmmmmmmm
        vvvmvvvvvvvmvvvv
        wwumvwwwwwumvwww
        wwumvwwwwwumvwww
        uuumuuuuuuumuuuu
        mmmmmmmmmmmmmmmm
        vvvvvvvmvvvvvvvm
        vwwwwwumvwwwwwum
        vwwwwwumvwwwwwum
        vwwwwwumvwwwwwum
        uuuuuuumuuuuuuum
        mmmmmmmmmmmmmmmm""",
    codes.PLAYER: """
        ................
        .....kkkkkk.....
        ....krrrrrrk....
        ...krrrrrrrrk...
        ...krssssssrk...
        ...kskssssksk...
        ...ksssssssk....
        ....ksssssk.....
        ...kkccccckk....
        ..kcccbbbcccbk..
        ..kskbbbbbbksk..
        ..kskbyyyybksk..
        ...kkbbbbbbkk...
        ....kbbkkbbk....
        ....krrkkrrk....
        ....kkkk.kkkk...""",
    codes.KEY: """
        ................
        ................
        ................
        ..kkkkk.........
        .kyYYYyk........
        kyYkkkyyk.......
        kYk...kykkkkkkk.
        kYk...kyYYYYYYyk
        kyk...kyyyyyyyyk
        kyk...kzkkkzkzzk
        kyykkkyzk.kzkzk.
        .kzyyyzk..kzkzk.
        ..kkkkk....k.k..
        ................
        ................
        ................""",
    codes.DOOR: """
        ....kkkkkkkk....
        ..kkuuvvvvuukk..
        .kuvkkkkkkkkvuk.
        .kukeeekedddkuk.
        kukeeeekeddddkuk
        kukeedekdeddakuk
        kukyyyykyyyyykuk
        kukeedekdedaakuk
        kukeedekdedaakuk
        kukeedekdekYkkuk
        kukeedekdekykkuk
        kukeedekdedkakuk
        kukyyyykyyyyykuk
        kukeedekdedaakuk
        kukeedekdedaakuk
        kkkkkkkkkkkkkkkk""",
    codes.BAT: """
        ................
        ................
        .....k....k.....
        ....kqk..kqk....
        kk..kqqkkqqk..kk
        kQk.kqqqqqqk.kQk
        kqQkkqWqqWqkkQqk
        kqqQqqRqqRqqQqqk
        kqqqqqqqqqqqqqqk
        .kqqkqqWWqqkqqk.
        .kqk.kqqqqk.kqk.
        ..k...kqqk...k..
        .......kk.......
        ................
        ................
        ................""",
    codes.SCORPION: """
        .........kkkk...
        ........kOOOOk..
        ........kkkkOOk.
        .......kRk.kNOk.
        .......kk..kNOk.
        .kk........kOOk.
        kOOk..kkkkkOOk..
        kOkk.kOOOOONk...
        kOk.kOONONONk...
        .kOkOWONONONkk..
        ..kOOkONONONk.k.
        .kOkOWONONONkk..
        kOk.kOOOOONk.kk.
        kOkk.kkNkNkNk.k.
        kOOk..k.k.k.k...
        .kk.............""",
    codes.SPIDER: """
        ................
        ..kk........kk..
        .k..k......k..k.
        .k...k.kk.k...k.
        .....kkXxkk.....
        ..kk.kXXxxk.kk..
        .k..kkXxxxkk..k.
        k...kxxxxxxk...k
        ...kkxxxxxxkk...
        ..k.kxRxxRxk.k..
        .k..kkxxxxkk..k.
        .k.k.kxWWxk.k.k.
        ..k...kkkk...k..
        ..k..........k..
        .k............k.
        ................""",
    codes.CRATE: """
        kkkkkkkkkkkkkkkk
        kTTTTTTTTTTTTTTk
        kTttttttttttttak
        kTtkkkkkkkkkktak
        kTtktteaaettktak
        kTtkattaaettktak
        kTtkeattaeetktak
        kTtkeeattaeektak
        kTtkeeeattaektak
        kTtkeeaeattaktak
        kTtkteaaeattktak
        kTtkttaaeeatktak
        kTtkkkkkkkkkktak
        kTttttttttttttak
        kaaaaaaaaaaaaaak
        kkkkkkkkkkkkkkkk""",
    codes.TARGET: """
        ................
        .....RRRRRR.....
        ...RRPPPPPPRR...
        ..RPPR....RPPR..
        ..RPR......RPR..
        .RPR...RR...RPR.
        .RP...RRRR...PR.
        .RP..RRPPRR..PR.
        .RP..RRPPRR..PR.
        .RP...RRRR...PR.
        .RPR...RR...RPR.
        ..RPR......RPR..
        ..RPPR....RPPR..
        ...RRPPPPPPRR...
        .....RRRRRR.....
        ................""",
    codes.OUTSIDE: """
        pooooooopooooooo
        opooooooopoooooo
        oopooooooopooooo
        ooopooooooopoooo
        oooopooooooopooo
        ooooopooooooopoo
        oooooopooooooopo
        ooooooopooooooop
        pooooooopooooooo
        opooooooopoooooo
        oopooooooopooooo
        ooopooooooopoooo
        oooopooooooopooo
        ooooopooooooopoo
        oooooopooooooopo
        ooooooopooooooop""",
}
"""One drawing per union tile code, 16 rows of 16 letters of ``COLOURS``; a dot lets the floor show through."""

CHARACTERS = ".#@kdbsx$o"
"""The character of every union tile code, EMPTY to TARGET, in ``to_text``."""

FRAME_COLOUR = (230, 30, 90)


@cache
def tile_images():
    """Return the drawn tiles, uint8 (11, 16, 16, 3), indexed by union tile code (OUTSIDE included)."""
    images = np.empty((codes.NUM_CODES, TILE_SIZE, TILE_SIZE, 3), np.uint8)
    floor = SPRITES[codes.EMPTY].split()
    for code, sprite in SPRITES.items():
        for y, row in enumerate(sprite.split()):
            images[code, y] = [COLOURS[floor[y][x] if letter == "." else letter] for x, letter in enumerate(row)]
    images.flags.writeable = False
    return images


def _check_level(level, game):
    level = np.asarray(level)
    if level.ndim != 2 or not np.issubdtype(level.dtype, np.integer):
        raise ValueError(f"level: needs a 2-dimensional integer array, got {level.dtype} of shape {level.shape}")
    if level.size and (level.min() < 0 or level.max() >= len(game.tiles)):
        raise ValueError(f"level: {game.name} has tiles 0 … {len(game.tiles) - 1}, got {level.min()} … {level.max()}")
    return level


def _as_game(game):
    return game if isinstance(game, Game) else get_game(game)


def draw_level(level, game, *, position=None, border=True, scale=1):
    """Draw one level.

    Parameters
    ----------
    level : integer array (H, W), the game's own tile numbers
    game : str or Game
    position : (x, y) of a cell to frame, or None
    border : bool, put one tile of OUTSIDE all round
    scale : int, pixels of the picture per drawn pixel

    Returns
    -------
    uint8 array ((H + 2) * 16 * scale, (W + 2) * 16 * scale, 3), without the 2 when ``border`` is False

    Raises
    ------
    ValueError : tile numbers that the game lacks, a position outside the level, a scale below 1
    """
    game = _as_game(game)
    level = _check_level(level, game)
    if scale < 1 or scale != int(scale):
        raise ValueError(f"scale: needs a whole number of at least 1, got {scale!r}")
    margin = 1 if border else 0
    union = np.pad(np.asarray(game.codes)[level], margin, constant_values=codes.OUTSIDE)
    height, width = union.shape
    image = tile_images()[union].swapaxes(1, 2).reshape(height * TILE_SIZE, width * TILE_SIZE, 3)
    if position is not None:
        x, y = (int(coordinate) for coordinate in position)
        if not (0 <= x < level.shape[1] and 0 <= y < level.shape[0]):
            raise ValueError(f"position: ({x}, {y}) is outside the level of {level.shape[1]} x {level.shape[0]} cells")
        top, left = (y + margin) * TILE_SIZE, (x + margin) * TILE_SIZE
        cell = image[top : top + TILE_SIZE, left : left + TILE_SIZE]
        cell[:2] = cell[-2:] = cell[:, :2] = cell[:, -2:] = FRAME_COLOUR
    return np.ascontiguousarray(image.repeat(scale, axis=0).repeat(scale, axis=1))


def gallery(levels, game, *, columns=None, border=True, scale=1, gap=8, background=(255, 255, 255)):
    """Lay out many levels of one game on one sheet, row by row.

    Parameters
    ----------
    levels : sequence of integer arrays (H, W); they may differ in size
    game : str or Game
    columns : int, levels per row; None makes the sheet about square
    border, scale : as in ``draw_level``
    gap : int, pixels between levels and round the sheet
    background : RGB of the gaps

    Returns
    -------
    uint8 array (rows of the sheet, columns of the sheet, 3); every level stands in the upper left of a cell that fits
    the largest

    Raises
    ------
    ValueError : no level at all, ``columns`` below 1, a negative ``gap``, and what ``draw_level`` raises
    """
    images = [draw_level(level, game, border=border, scale=scale) for level in levels]
    if not images:
        raise ValueError("levels: a gallery needs at least one level")
    columns = int(np.ceil(np.sqrt(len(images)))) if columns is None else columns
    if columns < 1:
        raise ValueError(f"columns: needs at least 1, got {columns}")
    if gap < 0:
        raise ValueError(f"gap: needs at least 0 pixels, got {gap}")
    rows = -(-len(images) // columns)
    height = max(image.shape[0] for image in images) + gap
    width = max(image.shape[1] for image in images) + gap
    sheet = np.full((rows * height + gap, min(columns, len(images)) * width + gap, 3), background, np.uint8)
    for index, image in enumerate(images):
        top, left = index // columns * height + gap, index % columns * width + gap
        sheet[top : top + image.shape[0], left : left + image.shape[1]] = image
    return sheet


def to_text(level, game):
    """Return a level as lines of characters: ``.`` empty, ``#`` solid, ``@`` player, ``k`` key, ``d`` door, ``b`` bat,
    ``s`` scorpion, ``x`` spider, ``$`` crate, ``o`` target."""
    game = _as_game(game)
    return "\n".join("".join(CHARACTERS[game.codes[tile]] for tile in row) for row in _check_level(level, game))


def from_text(text, game):
    """Return the level (uint8 (H, W), the game's own tile numbers) that ``to_text`` would write as ``text``.

    Blank lines and spaces around lines are left out. ValueError for a character that is no tile of the game, and for
    lines of different lengths.
    """
    game = _as_game(game)
    tile_of = {CHARACTERS[code]: tile for tile, code in enumerate(game.codes)}
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    unknown = sorted(set("".join(lines)) - set(tile_of))
    if unknown:
        raise ValueError(f"text: {unknown[0]!r} is no tile of {game.name}, which has {' '.join(tile_of)}")
    if len({len(line) for line in lines}) != 1:
        raise ValueError("text: a level needs at least one line, and all lines of one length")
    return np.array([[tile_of[character] for character in line] for line in lines], np.uint8)
