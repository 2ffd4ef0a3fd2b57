"""Searches over Sokoban positions.

`exact_search` finds a shortest solution or proves that there is none, within a budget of distinct positions.
`crate_search` is gym-pcgrl's search (breadth-first or best-first), step for step, down to the ties of its heap.
"""

import numpy as np
from numba import njit

from metapcg.games.deadlocks import corner_deadlocks

EMPTY, SOLID, PLAYER, CRATE, TARGET = 0, 1, 2, 3, 4
MOVES = "LRUD"
SOLVED, UNSOLVABLE, UNDECIDED = 0, 1, 2
STATUS_NAMES = ("solved", "unsolvable", "undecided")
BREADTH_FIRST = -1.0  # in place of a balance
MAX_CRATES = 64  # by default a level with more crates is not searched; the heuristic costs crates² a position


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
    taken[:] = False
    total = 0
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
def same_position(crates, players, a, b):
    if players[a] != players[b]:
        return False
    for i in range(crates.shape[1]):
        if crates[a, i] != crates[b, i]:
            return False
    return True


@njit(cache=True, nogil=True)
def position_hash(crates, players, node):
    value = np.uint64(players[node]) + np.uint64(0x9E3779B97F4A7C15)
    for i in range(crates.shape[1]):
        value ^= np.uint64(crates[node, i])
        value *= np.uint64(0xFF51AFD7ED558CCD)
        value ^= value >> np.uint64(32)
    return value


@njit(cache=True, nogil=True)
def crate_search(wall, dead, start_player, start_crates, target_cells, balance, power, count_duplicates, enough):
    """One search of gym-pcgrl's solver, over the player's cell and the ordered list of crates.

    Positions are recognised as duplicates when they are taken out of the queue, not when they are put in.

    Args:
        wall, dead: (H+2, W+2) bool; after a push no crate may stand on a dead cell.
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
    width = wall.shape[1]
    num_crates = start_crates.shape[0]
    free = ~wall.ravel()
    dead_cells = dead.ravel()
    steps = np.array([-1, 1, -width, width])
    capacity = 256
    players = np.empty(capacity, np.int16)
    crates = np.empty((capacity, num_crates), np.int16)
    parents = np.empty(capacity, np.int32)
    depths = np.empty(capacity, np.int32)
    moves = np.empty(capacity, np.uint8)
    heuristics = np.empty(capacity, np.int32)
    queue = np.empty(capacity, np.int32)
    keys = np.empty(capacity, np.float64)
    table = np.full(1024, -1, np.int32)
    seen = 0
    taken = np.empty(num_crates, np.bool_)
    occupied = np.full(free.shape[0], -1, np.int32)
    breadth_first = balance < 0

    players[0] = start_player
    for i in range(num_crates):
        crates[0, i] = start_crates[i]
    parents[0] = -1
    depths[0] = 0
    moves[0] = 0
    heuristics[0] = greedy_heuristic(crates[0], target_cells, width, taken)
    keys[0] = heuristics[0]
    queue[0] = 0
    nodes = 1
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
            moved = queue[tail]
            if tail > 0:  # heapq's pop: the hole sinks to a leaf along the smaller children, then the last entry rises
                hole = 0
                child = 1
                while child < tail:
                    if child + 1 < tail and not keys[queue[child]] < keys[queue[child + 1]]:
                        child += 1
                    queue[hole] = queue[child]
                    hole = child
                    child = 2 * hole + 1
                while hole > 0:
                    above = (hole - 1) >> 1
                    if not keys[moved] < keys[queue[above]]:
                        break
                    queue[hole] = queue[above]
                    hole = above
                queue[hole] = moved
        if heuristics[node] == 0:  # every crate is on a target
            iterations += 1
            won_node = node
            break
        slot = position_hash(crates, players, node) & np.uint64(table.shape[0] - 1)
        duplicate = False
        while table[slot] >= 0:
            if same_position(crates, players, table[slot], node):
                duplicate = True
                break
            slot = (slot + np.uint64(1)) & np.uint64(table.shape[0] - 1)
        if duplicate:
            if count_duplicates:
                iterations += 1
            continue
        iterations += 1
        if heuristics[node] < best or (heuristics[node] == best and depths[node] < best_depth):
            best = heuristics[node]
            best_depth = depths[node]
            if best <= enough:
                break
        table[slot] = node
        seen += 1
        if 2 * seen > table.shape[0]:
            old = table
            table = np.full(2 * old.shape[0], -1, np.int32)
            for k in range(old.shape[0]):
                if old[k] >= 0:
                    slot = position_hash(crates, players, old[k]) & np.uint64(table.shape[0] - 1)
                    while table[slot] >= 0:
                        slot = (slot + np.uint64(1)) & np.uint64(table.shape[0] - 1)
                    table[slot] = old[k]
        if nodes + 4 > capacity:
            capacity *= 2
            players = grow(players, capacity)
            parents = grow(parents, capacity)
            depths = grow(depths, capacity)
            moves = grow(moves, capacity)
            heuristics = grow(heuristics, capacity)
            queue = grow(queue, capacity)
            keys = grow(keys, capacity)
            more = np.empty((capacity, num_crates), np.int16)
            more[:nodes] = crates[:nodes]
            crates = more
        for i in range(num_crates):
            occupied[crates[node, i]] = i
        for direction in range(4):
            to = players[node] + steps[direction]
            if not free[to]:
                continue
            pushed = occupied[to]
            if pushed >= 0:
                beyond = to + steps[direction]
                if not free[beyond] or occupied[beyond] >= 0:
                    continue
            players[nodes] = to
            stuck = False
            for i in range(num_crates):
                cell = crates[node, i]
                if i == pushed:
                    cell = to + steps[direction]
                crates[nodes, i] = cell
                if pushed >= 0 and dead_cells[cell]:
                    stuck = True
                    break
            if stuck:
                continue
            parents[nodes] = node
            depths[nodes] = depths[node] + 1
            moves[nodes] = direction
            if pushed >= 0:
                heuristics[nodes] = greedy_heuristic(crates[nodes], target_cells, width, taken)
            else:
                heuristics[nodes] = heuristics[node]
            if breadth_first:
                queue[tail] = nodes
                tail += 1
            else:
                keys[nodes] = heuristics[nodes] + balance * depths[nodes]
                hole = tail
                tail += 1
                while hole > 0:
                    above = (hole - 1) >> 1
                    if not keys[nodes] < keys[queue[above]]:
                        break
                    queue[hole] = queue[above]
                    hole = above
                queue[hole] = nodes
            nodes += 1
        for i in range(num_crates):
            occupied[crates[node, i]] = -1
    complete = head >= tail
    if won_node < 0:
        return False, iterations, best, complete, np.empty(0, np.uint8)
    return True, iterations, 0, complete, trace(won_node, parents, depths, moves)


@njit(cache=True, nogil=True)
def grow(array, capacity):
    more = np.empty(capacity, array.dtype)
    more[: array.shape[0]] = array
    return more


@njit(cache=True, nogil=True)
def trace(node, parents, depths, moves):
    """Moves from the root to a node, (depth,) uint8."""
    out = np.empty(depths[node], np.uint8)
    while parents[node] >= 0:
        out[depths[node] - 1] = moves[node]
        node = parents[node]
    return out


@njit(cache=True, nogil=True)
def read_room(level):
    """Walls, targets and lists of cells of a level, with a wall all round.

    Args:
        level: (H, W) uint8 with exactly one player.

    Returns:
        wall, target: (H+2, W+2) bool; player: flat cell; crates, target_cells: int64 flat cells in row-major order.
    """
    height, width = level.shape
    wall = np.ones((height + 2, width + 2), np.bool_)
    target = np.zeros((height + 2, width + 2), np.bool_)
    crates = np.empty(height * width, np.int64)
    target_cells = np.empty(height * width, np.int64)
    num_crates = 0
    num_targets = 0
    player = 0
    for y in range(height):
        for x in range(width):
            tile = level[y, x]
            cell = (y + 1) * (width + 2) + x + 1
            wall[y + 1, x + 1] = tile == SOLID
            if tile == PLAYER:
                player = cell
            elif tile == CRATE:
                crates[num_crates] = cell
                num_crates += 1
            elif tile == TARGET:
                target[y + 1, x + 1] = True
                target_cells[num_targets] = cell
                num_targets += 1
    return wall, target, player, crates[:num_crates].copy(), target_cells[:num_targets].copy()


@njit(cache=True, nogil=True)
def solve_like_original(level, power):
    """gym-pcgrl's solver: breadth-first, then A* with balance 1, 0.5, 0; the first that wins.

    Args:
        level: (H, W) uint8 with one player and as many crates as targets, at least one.
        power: budget of each search.

    Returns:
        (status, dist_win, moves): SOLVED or UNDECIDED, or UNSOLVABLE if the breadth-first search was complete;
        heuristic of the last search's best position; (n,) uint8.
    """
    wall, target, player, crates, target_cells = read_room(level)
    dead = corner_deadlocks(wall, target)
    status = UNDECIDED
    best = 0
    for balance in (BREADTH_FIRST, 1.0, 0.5, 0.0):
        won, _, best, complete, moves = crate_search(wall, dead, player, crates, target_cells, balance, power, True, 0)
        if won:
            return SOLVED, 0, moves
        if complete:
            status = UNSOLVABLE
    return status, best, np.empty(0, np.uint8)


@njit(cache=True, nogil=True)
def solve_exactly(level, power):
    """Shortest solution, or a proof that there is none, or the best that a bounded search finds.

    Args and returns as `solve_like_original`.
    """
    wall, target, player, crates, target_cells = read_room(level)
    dead = corner_deadlocks(wall, target)
    won, _, best, complete, moves = crate_search(
        wall, dead, player, crates, target_cells, BREADTH_FIRST, power, False, 0
    )
    if won:
        return SOLVED, 0, moves
    if complete:
        return UNSOLVABLE, best, moves
    for balance in (1.0, 0.5, 0.0):
        won, _, best, complete, moves = crate_search(wall, dead, player, crates, target_cells, balance, power, False, 0)
        if won:
            return SOLVED, 0, moves
    return UNDECIDED, best, moves


@njit(cache=True, nogil=True)
def solve_level(level, power, quirks):
    """`solve_like_original` or `solve_exactly`."""
    if quirks:
        return solve_like_original(level, power)
    return solve_exactly(level, power)
