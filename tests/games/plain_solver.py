"""Sokoban's searches in their plain form, with which the fast solver is compared: every position in full, once for
every time it is reached, each heuristic from scratch, and nothing kept from one search to the next.
"""

import numpy as np
from numba import njit

EMPTY, SOLID, PLAYER, CRATE, TARGET = 0, 1, 2, 3, 4
MOVES = "LRUD"
SOLVED, UNSOLVABLE, UNDECIDED = 0, 1, 2
STATUS_NAMES = ("solved", "unsolvable", "undecided")
BREADTH_FIRST = -1.0  # in place of a balance
BALANCES = (BREADTH_FIRST, 1.0, 0.5, 0.0)  # gym-pcgrl's searches in order
MAX_CRATES = 64  # by default levels with more crates get no best-first search, whose heuristic costs crates² a position

ZERO = np.uint64(0)
ONE = np.uint64(1)
PLAYER_BITS = np.uint64(54)  # the player's cell is kept in the top 10 bits of a packed position's last word
CRATE_MASK = np.uint64((1 << 54) - 1)

# columns of a node of `crate_search`; the crates' cells follow
PARENT, DEPTH, MOVE, HEURISTIC, AT, FIRST_CRATE = 0, 1, 2, 3, 4, 5


@njit(cache=True, nogil=True)
def corner_deadlocks(wall, target, width):
    """gym-pcgrl's deadlock squares: corners, and wall-side runs between two corners.

    A corner is a free cell, not a target, with a wall above or below and a wall left or right. If all cells strictly
    between two corners of one row (column) are free, no target and have a wall above or below (left or right), they
    are deadlocks too; the side may change from cell to cell.

    Args:
        wall, target: (cells,) bool, a flat room with a wall all round.
        width: of the room.

    Returns:
        (cells,) bool.
    """
    dead = np.zeros(wall.shape[0], np.bool_)
    corner = np.zeros(wall.shape[0], np.bool_)
    for cell in range(width, wall.shape[0] - width):
        if not wall[cell] and not target[cell]:
            corner[cell] = (wall[cell - width] or wall[cell + width]) and (wall[cell - 1] or wall[cell + 1])
    for start in range(width, wall.shape[0] - width):
        if not corner[start]:
            continue
        dead[start] = True
        for step in (1, width):
            beside = width + 1 - step  # across the run
            cell = start + step
            while not wall[cell] and not target[cell] and (wall[cell - beside] or wall[cell + beside]):
                if corner[cell]:
                    for between in range(start, cell, step):
                        dead[between] = True
                    break
                cell += step
    return dead


@njit(cache=True, nogil=True)
def dead_squares(wall, target, width):
    """Free cells from which a single crate, alone in the room, cannot be pushed to any target.

    Found by pulling a crate backwards from every target (a crate moves from a to b only if the cell behind a, where
    the player stands, is free). Every square of `corner_deadlocks` is among them.

    Args and returns as `corner_deadlocks`.
    """
    dead = np.zeros(wall.shape[0], np.bool_)
    stack = np.zeros(wall.shape[0], np.int64)
    count = 0
    for cell in range(wall.shape[0]):
        dead[cell] = not wall[cell] and not target[cell]
        if target[cell]:
            stack[count] = cell
            count += 1
    while count > 0:
        count -= 1
        cell = stack[count]
        for step in (-1, 1, -width, width):
            # the crate came from cell - step, pushed by a player one further back
            if dead[cell - step] and not wall[cell - 2 * step]:
                dead[cell - step] = False
                stack[count] = cell - step
                count += 1
    return dead


@njit(cache=True, nogil=True)
def filled(size, value):
    """(size,) int64 array of one value."""
    array = np.empty(size, np.int64)
    for i in range(size):
        array[i] = value
    return array


@njit(cache=True, nogil=True)
def doubled(array):
    """A two-dimensional array with twice the rows; the new ones are zero."""
    more = np.zeros((2 * array.shape[0], array.shape[1]), array.dtype)
    for i in range(array.shape[0]):
        for k in range(array.shape[1]):
            more[i, k] = array[i, k]
    return more


@njit(cache=True, nogil=True)
def greedy_heuristic(crates, target_cells, width, taken):
    """Crates in order, each takes the nearest target not yet taken (Manhattan, lowest index on ties); the sum.

    Args:
        crates, target_cells: (n,) flat cells of a room `width` wide.
        width: int.
        taken: (n,) bool scratch.

    Returns:
        int.
    """
    total = 0
    for i in range(crates.shape[0]):
        taken[i] = False
    for i in range(crates.shape[0]):
        crate_y = crates[i] // width
        crate_x = crates[i] % width
        best = 1 << 30
        chosen = 0
        for j in range(target_cells.shape[0]):
            if not taken[j]:
                distance = abs(crate_y - target_cells[j] // width) + abs(crate_x - target_cells[j] % width)
                if distance < best:
                    best = distance
                    chosen = j
        taken[chosen] = True
        total += best
    return total


@njit(cache=True, nogil=True)
def find_node(table, nodes, node):
    """Slot of a node with the same player and crates in an open-addressing table, or the empty slot where it goes."""
    mask = np.uint64(table.shape[0] - 1)
    value = ZERO
    for i in range(AT, nodes.shape[1]):
        value ^= np.uint64(nodes[node, i])
        value *= np.uint64(0xFF51AFD7ED558CCD)
        value ^= value >> np.uint64(32)
    slot = value & mask
    while table[slot] >= 0:
        other = table[slot]
        same = True
        for i in range(AT, nodes.shape[1]):
            if nodes[other, i] != nodes[node, i]:
                same = False
                break
        if same:
            break
        slot = (slot + ONE) & mask
    return np.int64(slot)


@njit(cache=True, nogil=True)
def crate_search(width, wall, dead, start_player, start_crates, target_cells, balance, power, count_duplicates, enough):
    """One search of gym-pcgrl's solver, over the player's cell and the ordered list of crates.

    Positions are recognised as duplicates when they are taken out of the queue, not when they are put in.

    Args:
        width: of the room with its wall.
        wall, dead: (cells,) bool, flat; after a push no crate may stand on a dead cell.
        start_player: flat cell.
        start_crates, target_cells: (n,) int64 flat cells in row-major order, n >= 1.
        balance: weight of the depth against the heuristic in the order of the queue, or BREADTH_FIRST.
        power: budget in positions taken out of the queue.
        count_duplicates: whether a duplicate taken out counts against the budget (as in gym-pcgrl).
        enough: stop as soon as a position with a heuristic this small has been found (0: never).

    Returns:
        (won, iterations, heuristic, complete, moves): whether a won position was reached; positions counted; heuristic
        of the best position (0 if won); whether the search ended before its budget; the moves, uint8 (0..3 = L R U D).
    """
    num_crates = start_crates.shape[0]
    taken = np.empty(num_crates, np.bool_)
    occupied = filled(wall.shape[0], -1)  # index of the crate on a cell of the position being expanded
    breadth_first = balance < 0

    nodes = np.zeros((256, FIRST_CRATE + num_crates), np.int32)
    queue = np.zeros(256, np.int64)
    ranks = np.zeros(256, np.float64)  # of the queue's entries, in a best-first search
    table = filled(1024, -1)  # the positions already taken out
    nodes[0, PARENT] = -1
    nodes[0, AT] = start_player
    for i in range(num_crates):
        nodes[0, FIRST_CRATE + i] = start_crates[i]
    nodes[0, HEURISTIC] = greedy_heuristic(start_crates, target_cells, width, taken)
    queue[0] = 0
    num_nodes = 1
    num_seen = 0
    head = 0  # breadth-first: the queue is queue[head:tail]; best-first: a heap in queue[:tail]
    tail = 1
    best = 1 << 30
    best_depth = 0
    iterations = 0
    won_node = -1
    while iterations < power and head < tail:
        if breadth_first:
            node = queue[head]
            head += 1
        else:
            node = queue[0]
            tail -= 1
            if (
                tail > 0
            ):  # as heapq: the hole sinks to a leaf along the smaller children, then the last entry rises from it
                hole = 0
                child = 1
                while child < tail:
                    if child + 1 < tail and not ranks[child] < ranks[child + 1]:
                        child += 1
                    queue[hole] = queue[child]
                    ranks[hole] = ranks[child]
                    hole = child
                    child = 2 * hole + 1
                rise(queue, ranks, hole, queue[tail], ranks[tail])
        if nodes[node, HEURISTIC] == 0:  # every crate is on a target
            iterations += 1
            won_node = node
            break
        slot = find_node(table, nodes, node)
        if table[slot] >= 0:
            if count_duplicates:
                iterations += 1
            continue
        iterations += 1
        if nodes[node, HEURISTIC] < best or (nodes[node, HEURISTIC] == best and nodes[node, DEPTH] < best_depth):
            best = nodes[node, HEURISTIC]
            best_depth = nodes[node, DEPTH]
            if best <= enough:
                break
        table[slot] = node
        num_seen += 1
        if 2 * num_seen > table.shape[0]:
            old_table = table
            table = filled(2 * old_table.shape[0], -1)
            for k in range(old_table.shape[0]):
                if old_table[k] >= 0:
                    table[find_node(table, nodes, old_table[k])] = old_table[k]
        if num_nodes + 4 > nodes.shape[0]:
            nodes = doubled(nodes)
            old_queue = queue
            old_ranks = ranks
            queue = np.zeros(nodes.shape[0], np.int64)
            ranks = np.zeros(nodes.shape[0], np.float64)
            for k in range(tail):
                queue[k] = old_queue[k]
                ranks[k] = old_ranks[k]
        for i in range(num_crates):
            occupied[nodes[node, FIRST_CRATE + i]] = i
        for move in range(4):
            step = (-1, 1, -width, width)[move]
            to = nodes[node, AT] + step
            if wall[to]:
                continue
            pushed = occupied[to]
            if pushed >= 0 and (wall[to + step] or occupied[to + step] >= 0):
                continue
            for i in range(num_crates):
                nodes[num_nodes, FIRST_CRATE + i] = nodes[node, FIRST_CRATE + i]
            heuristic = nodes[node, HEURISTIC]
            if pushed >= 0:
                nodes[num_nodes, FIRST_CRATE + pushed] = to + step
                stuck = False
                for i in range(num_crates):
                    stuck |= dead[nodes[num_nodes, FIRST_CRATE + i]]
                if stuck:
                    continue
                heuristic = greedy_heuristic(nodes[num_nodes, FIRST_CRATE:], target_cells, width, taken)
            nodes[num_nodes, PARENT] = node
            nodes[num_nodes, DEPTH] = nodes[node, DEPTH] + 1
            nodes[num_nodes, MOVE] = move
            nodes[num_nodes, HEURISTIC] = heuristic
            nodes[num_nodes, AT] = to
            if breadth_first:
                queue[tail] = num_nodes
            else:
                rise(queue, ranks, tail, num_nodes, heuristic + balance * nodes[num_nodes, DEPTH])
            tail += 1
            num_nodes += 1
        for i in range(num_crates):
            occupied[nodes[node, FIRST_CRATE + i]] = -1
    if won_node < 0:
        return False, iterations, best, head >= tail, np.zeros(0, np.uint8)
    moves = np.zeros(nodes[won_node, DEPTH], np.uint8)
    while nodes[won_node, PARENT] >= 0:
        moves[nodes[won_node, DEPTH] - 1] = nodes[won_node, MOVE]
        won_node = nodes[won_node, PARENT]
    return True, iterations, 0, head >= tail, moves


@njit(cache=True, nogil=True)
def rise(heap, ranks, hole, node, rank):
    """Puts a node into the heap at `hole` and lets it rise past parents of larger rank (heapq's _siftdown)."""
    while hole > 0:
        above = (hole - 1) >> 1
        if not rank < ranks[above]:
            break
        heap[hole] = heap[above]
        ranks[hole] = ranks[above]
        hole = above
    heap[hole] = node
    ranks[hole] = rank


@njit(cache=True, nogil=True)
def find_packed(table, packed, position):
    """Slot of an equal packed position in an open-addressing table, or the empty slot where it goes."""
    mask = np.uint64(table.shape[0] - 1)
    value = ZERO
    for k in range(packed.shape[1]):
        value ^= packed[position, k]
        value *= np.uint64(0x9E3779B97F4A7C15)
        value ^= value >> np.uint64(32)
    slot = value & mask
    while table[slot] >= 0:
        other = table[slot]
        same = True
        for k in range(packed.shape[1]):
            if packed[other, k] != packed[position, k]:
                same = False
                break
        if same:
            break
        slot = (slot + ONE) & mask
    return np.int64(slot)


@njit(cache=True, nogil=True)
def exact_search(width, wall, dead, start_player, start_crates, target_cells, power):
    """Breadth-first search over the player's cell and the set of crates, each position kept once.

    A position is packed into 64-bit words of 54 free cells each: a bit for every cell that holds a crate, and the
    player's cell in the top 10 bits of the last word. One word serves rooms of up to 54 free cells, 19 words any room
    up to 32 × 32, with any number of crates.

    Args:
        width: of the room with its wall.
        wall, dead: (cells,) bool, flat; no crate is pushed onto a dead cell (`dead_squares`).
        start_player: flat cell.
        start_crates, target_cells: (n,) int64 flat cells, n >= 1.
        power: budget in distinct positions.

    Returns:
        (status, moves): SOLVED with a shortest solution in player moves, (n,) uint8; UNSOLVABLE if every position was
        seen; UNDECIDED if there are more than the budget.
    """
    index = filled(wall.shape[0], -1)
    cells = np.zeros(wall.shape[0], np.int64)
    num_free = 0
    for cell in range(wall.shape[0]):
        if not wall[cell]:
            index[cell] = num_free
            cells[num_free] = cell
            num_free += 1
    for i in range(start_crates.shape[0]):
        if dead[start_crates[i]]:
            return UNSOLVABLE, np.zeros(0, np.uint8)
    beside = np.zeros((num_free, 4), np.int64)  # free cell in each direction, or -1
    for k in range(num_free):
        for move in range(4):
            beside[k, move] = index[cells[k] + (-1, 1, -width, width)[move]]

    words = (num_free + 53) // 54
    packed = np.zeros((256, words), np.uint64)
    links = np.zeros(256, np.int64)  # 4 * parent + move
    table = filled(1024, -1)
    won = np.zeros(words, np.uint64)
    for i in range(start_crates.shape[0]):
        k = index[start_crates[i]]
        packed[0, k // 54] |= ONE << np.uint64(k % 54)
        k = index[target_cells[i]]
        won[k // 54] |= ONE << np.uint64(k % 54)
    packed[0, words - 1] |= np.uint64(index[start_player]) << PLAYER_BITS
    table[find_packed(table, packed, 0)] = 0
    links[0] = -1
    count = 1
    head = 0
    while head < count:
        at = np.int64(packed[head, words - 1] >> PLAYER_BITS)
        for move in range(4):
            to = beside[at, move]
            if to < 0:
                continue
            crate = (packed[head, to // 54] >> np.uint64(to % 54)) & ONE
            beyond = beside[to, move]
            if crate and (
                beyond < 0 or dead[cells[beyond]] or (packed[head, beyond // 54] >> np.uint64(beyond % 54)) & ONE
            ):
                continue
            # written behind the last position, where it stays if it is new
            for k in range(words):
                packed[count, k] = packed[head, k]
            if crate:
                packed[count, to // 54] ^= ONE << np.uint64(to % 54)
                packed[count, beyond // 54] ^= ONE << np.uint64(beyond % 54)
            packed[count, words - 1] = (packed[count, words - 1] & CRATE_MASK) | (np.uint64(to) << PLAYER_BITS)
            slot = find_packed(table, packed, count)
            if table[slot] >= 0:
                continue
            if count >= power:
                return UNDECIDED, np.zeros(0, np.uint8)
            links[count] = 4 * head + move
            table[slot] = count
            count += 1
            if crate:
                finished = True
                for k in range(words):
                    finished &= packed[count - 1, k] & CRATE_MASK == won[k]
                if finished:
                    return SOLVED, trace(links, count - 1)
            if count == packed.shape[0]:
                packed = doubled(packed)
                old_links = links
                links = np.zeros(2 * count, np.int64)
                for k in range(count):
                    links[k] = old_links[k]
                table = filled(8 * count, -1)
                for k in range(count):
                    table[find_packed(table, packed, k)] = k
        head += 1
    return UNSOLVABLE, np.zeros(0, np.uint8)


@njit(cache=True, nogil=True)
def trace(links, position):
    """Moves from the first position to this one, (n,) uint8."""
    length = 0
    ancestor = position
    while links[ancestor] >= 0:
        ancestor = links[ancestor] >> 2
        length += 1
    moves = np.zeros(length, np.uint8)
    while length > 0:
        length -= 1
        moves[length] = links[position] & 3
        position = links[position] >> 2
    return moves


@njit(cache=True, nogil=True)
def read_room(level):
    """Walls, targets and lists of cells of a level, with a wall all round.

    Args:
        level: (H, W) uint8 with exactly one player.

    Returns:
        wall, target: ((H+2)*(W+2),) bool, flat; player: flat cell; crates, target_cells: int64 flat cells in row-major
        order.
    """
    height, width = level.shape
    wall = np.zeros((height + 2) * (width + 2), np.bool_)
    target = np.zeros((height + 2) * (width + 2), np.bool_)
    crates = filled(height * width, 0)
    target_cells = filled(height * width, 0)
    num_crates = 0
    num_targets = 0
    player = 0
    for cell in range(wall.shape[0]):
        y = cell // (width + 2) - 1
        x = cell % (width + 2) - 1
        if y < 0 or x < 0 or y == height or x == width:
            wall[cell] = True
            continue
        tile = level[y, x]
        wall[cell] = tile == SOLID
        if tile == PLAYER:
            player = cell
        elif tile == CRATE:
            crates[num_crates] = cell
            num_crates += 1
        elif tile == TARGET:
            target[cell] = True
            target_cells[num_targets] = cell
            num_targets += 1
    return wall, target, player, crates[:num_crates], target_cells[:num_targets]


@njit(cache=True, nogil=True)
def solve_level(level, power, quirks):
    """Solves a level.

    With quirks: gym-pcgrl's breadth-first search, then its A* with balance 1, 0.5 and 0; the first that wins.

    By default: one exact search. If it proves that there is no solution, dist_win is the smallest heuristic of all
    positions that gym-pcgrl would reach. If it used up its budget, the three A* go on, each with a budget of distinct
    positions: they visit what gym-pcgrl's visit, in the same order, and then more, so the result is never worse.
    With more than MAX_CRATES crates only the exact search runs, and dist_win is the heuristic of the level itself.

    Args:
        level: (H, W) uint8 with one player and as many crates as targets, at least one.
        power: budget of each search in positions.
        quirks: bool.

    Returns:
        (status, dist_win, moves): SOLVED, UNSOLVABLE (proven) or UNDECIDED; 0 if solved, else the smallest heuristic
        found; player moves, (n,) uint8.
    """
    width = level.shape[1] + 2
    wall, target, player, crates, target_cells = read_room(level)
    dead = corner_deadlocks(wall, target, width)
    status = UNDECIDED
    first = 0
    enough = 0
    if not quirks:
        status, moves = exact_search(
            width, wall, dead_squares(wall, target, width), player, crates, target_cells, power
        )
        if status == SOLVED:
            return status, 0, moves
        stuck = crates.shape[0] > MAX_CRATES
        for i in range(crates.shape[0]):
            stuck |= dead[crates[i]]  # then no push leads anywhere
        if stuck:
            taken = np.empty(crates.shape[0], np.bool_)
            return status, greedy_heuristic(crates, target_cells, width, taken), moves
        first = 1
        if status == UNSOLVABLE:
            first = 3
            enough = 1  # without a solution no heuristic is smaller
    best = 0
    for search in range(first, len(BALANCES)):
        won, _, best, complete, moves = crate_search(
            width, wall, dead, player, crates, target_cells, BALANCES[search], power, quirks, enough
        )
        if won:
            return SOLVED, 0, moves
        if complete:
            status = UNSOLVABLE
    return status, best, np.zeros(0, np.uint8)
