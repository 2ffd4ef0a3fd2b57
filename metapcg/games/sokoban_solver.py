"""Searches over Sokoban positions.

`exact_search` finds a shortest solution or proves that there is none, within a budget of distinct positions.
`crate_search` is gym-pcgrl's search (breadth-first or best-first), step for step, down to the ties of its heap.
`solve_level` combines them.

A position is an *arrangement* of the crates and the player's cell. Arrangements are kept in a table, each once, as bits
over the free cells (in `crate_search`, whose crates have an order, the list of their cells besides), with what is known
of them: the heuristic, and one bit for every cell on which the player was seen. So a step without a push costs no
search in any table, and a heuristic is computed once per arrangement, from that of the arrangement before the push.

All memory is one tuple of arrays (`search_space`), which may be used for any number of levels: everything that is read
was written before in a search of the same level, so that no result depends on what ran earlier.
"""

import numpy as np
from numba import njit

from metapcg.games.deadlocks import corner_deadlocks, dead_squares
from metapcg.games.memory import ONE, ZERO, flags, short_words, words

EMPTY, SOLID, PLAYER, CRATE, TARGET = 0, 1, 2, 3, 4
MOVES = "LRUD"
SOLVED, UNSOLVABLE, UNDECIDED = 0, 1, 2
STATUS_NAMES = ("solved", "unsolvable", "undecided")
BREADTH_FIRST = -1  # in place of a balance
BALANCES = (BREADTH_FIRST, 2, 1, 0)  # gym-pcgrl's searches in order; its balances 1, 0.5 and 0 are counted in halves
MAX_CRATES = 64  # by default levels with more crates get no best-first search, whose heuristic costs crates² a position

# a cell is 10 bits: 32 × 32 at most
CELL_BITS = 10
CELL_MASK = (1 << CELL_BITS) - 1
# words of an arrangement: its hash, its value (`crate_search`: heuristic; `exact_search`: targets without a crate), one
# bit per free cell that holds a crate, one bit per free cell where the player was seen
HASH, VALUE, BITS = 0, 1, 2
UNKNOWN = -1
# words of a node, a position reached: 4 * parent + move, arrangement and player's cell, number of moves
LINK, STATE, DEPTH, NODE_WORDS = 0, 1, 2, 3
RANK_BITS = 32  # an entry of the heap is rank << 32 | node
NOT_NEGATIVE = (1 << 62) - 1  # `k & NOT_NEGATIVE` tells the compiler that an index never counts from the end
U_ZERO, U_ONE, U_TWO = np.uint64(0), np.uint64(1), np.uint64(2)
FIRST_SLOTS = np.int64(64)  # the table of arrangements starts with so many slots


@njit(cache=True, nogil=True)
def search_space(height, width, power):
    """Memory for the searches on levels of up to height × width cells.

    Args:
        height, width: int, 1..32.
        power: int, budget of a search in positions.

    Returns:
        (nodes, arrangements, lists, heap, table): int64 arrays, `lists` uint16, not initialised, so that the system
        gives memory only to the parts that a search comes to. `lists` is for `crate_search`: of each arrangement the
        cells of its n crates, then the numbers of the targets that the heuristic gives them.
    """
    most_nodes = 4 * power + 8
    most_arrangements = 2 * most_nodes
    cells = height * width
    stride = BITS + 2 * ((cells + 63) // 64)
    slots = FIRST_SLOTS
    while slots < 2 * most_arrangements:
        slots *= 2
    return (
        words(NODE_WORDS * most_nodes),
        words(stride * most_arrangements),
        short_words(2 * (cells // 2) * most_arrangements),
        words(most_nodes),
        words(slots),
    )


@njit(cache=True, nogil=True)
def rank_targets(rows, columns, targets):
    """Which target a crate prefers, if only one crate counts: the nearest (Manhattan), the lowest index on ties.

    Args:
        rows, columns: (cells,) of every free cell.
        targets: (n,) free cells.

    Returns:
        (cells * n,) uint16: cell * n + target → its distance, below 64, * 1024 + the target's index.
    """
    ranks = short_words(rows.shape[0] * targets.shape[0])
    k = 0
    for cell in range(rows.shape[0]):
        for j in range(targets.shape[0]):
            steps = abs(rows[cell] - rows[targets[j]]) + abs(columns[cell] - columns[targets[j]])
            ranks[k] = steps << CELL_BITS | j
            k += 1
    return ranks


@njit(cache=True, nogil=True)
def greedy_heuristic(lists, crates, targets, rows, columns):
    """Crates in order, each takes the nearest target not yet taken (Manhattan, lowest index on ties); the sum.

    Args:
        lists: of `search_space`; the first arrangement's entries are written.
        crates, targets: (n,) free cells.
        rows, columns: (cells,) of every free cell.

    Returns:
        int.
    """
    total = 0
    count = crates.shape[0]
    for j in range(count):
        lists[count + j] = j
    for i in range(count):
        lists[i] = crates[i]
        # the targets listed from i on are free
        best = 1 << 30
        chosen = i
        for k in range(i, count):
            j = lists[count + k]
            steps = abs(rows[crates[i]] - rows[targets[j]]) + abs(columns[crates[i]] - columns[targets[j]])
            if steps << CELL_BITS | j < best:
                best = steps << CELL_BITS | j
                chosen = k
        lists[count + chosen] = lists[count + i]
        lists[count + i] = best & CELL_MASK
        total += best >> CELL_BITS
    return total


@njit(cache=True, nogil=True)
def heuristic_after_push(lists, old, new, heuristic, crate, num_crates, ranks):
    """`greedy_heuristic` of an arrangement that differs from a known one by one crate.

    The crates before the pushed one take what they took. Behind it, what is free differs from before by one target:
    `free` is free and `gone` is not, until a crate takes `free` whose own target was `gone`.

    Args:
        lists: the entries of the old arrangement start at `old`, those of the new one, which are written, at `new`.
        heuristic: of the old arrangement.
        crate: number of the crate that was pushed; its cell in the new list is the one after the push.
        ranks: of `rank_targets`.

    Returns:
        int.
    """
    old &= NOT_NEGATIVE
    new &= NOT_NEGATIVE
    crate &= NOT_NEGATIVE
    num_crates &= NOT_NEGATIVE
    choices = new + num_crates
    for i in range(num_crates):
        lists[choices + i] = lists[old + num_crates + i]
    free = lists[choices + crate]
    base = lists[new + crate] * num_crates
    # what crates from this one on took is what those before it left
    taken = np.int64(ranks[base + free])
    for i in range(crate + 1, num_crates):
        taken = min(taken, np.int64(ranks[base + lists[choices + i]]))
    gone = taken & CELL_MASK
    lists[choices + crate] = gone
    heuristic += (taken >> CELL_BITS) - (ranks[lists[old + crate] * num_crates + free] >> CELL_BITS)
    while free != gone:
        crate += 1
        base = lists[new + crate] * num_crates
        before = lists[choices + crate]
        taken = np.int64(ranks[base + free])
        if before == gone:
            for i in range(crate + 1, num_crates):
                taken = min(taken, np.int64(ranks[base + lists[choices + i]]))
            gone = taken & CELL_MASK
            lists[choices + crate] = gone
            heuristic += (taken >> CELL_BITS) - (ranks[base + before] >> CELL_BITS)
        elif taken < ranks[base + before]:
            lists[choices + crate] = free
            heuristic += (taken >> CELL_BITS) - (ranks[base + before] >> CELL_BITS)
            free = before
    return heuristic


@njit(cache=True, nogil=True)
def mix(word):
    """A hash of an int64, after splitmix64's mixing; one to one on words of 20 bits, crate and cell (`push`)."""
    word = (word ^ (word >> 30)) * -4658895280553007687  # 0xBF58476D1CE4E5B9
    word = (word ^ (word >> 27)) * -7723592293110705685  # 0x94D049BB133111EB
    return word ^ (word >> 31)


@njit(cache=True, nogil=True)
def add_first(arrangements, table, crates, cell_words, ordered):
    """Starts the table with one arrangement, number 0.

    Args:
        arrangements, table: of `search_space`.
        crates: (n,) free cells.
        cell_words: words of a set of free cells.
        ordered: 1 if the same cells in another order are another arrangement, else 0.

    Returns:
        int: mask of the table's slots.
    """
    for k in range(BITS + 2 * cell_words):
        arrangements[k] = 0
    value = 0
    for i in range(crates.shape[0]):
        cell = crates[i]
        arrangements[BITS + (cell >> 6)] |= 1 << (cell & 63)
        value ^= mix(i << CELL_BITS | cell) if ordered else mix(cell)
    arrangements[HASH] = value
    arrangements[VALUE] = UNKNOWN
    for slot in range(FIRST_SLOTS):
        table[slot] = -1
    table[value & (FIRST_SLOTS - 1)] = 0
    return FIRST_SLOTS - 1


@njit(cache=True, nogil=True)
def push(arrangements, lists, table, mask, count, cell_words, num_crates, old, crate, start, end):
    """The arrangement after one crate was moved.

    Args:
        arrangements, lists, table, cell_words: see `search_space` and `add_first`.
        mask: of the table's slots.
        count: number of arrangements.
        num_crates: length of the lists, or 0 if the order of the crates does not matter.
        old: arrangement before.
        crate: number of the crate; any number if their order does not matter.
        start, end: free cells; a crate stands on the first, none on the second.

    Returns:
        int: number of the arrangement; `count` if it is new, and then its VALUE is UNKNOWN and of its lists the cells
        are written.
    """
    mask &= NOT_NEGATIVE
    count &= NOT_NEGATIVE
    cell_words &= NOT_NEGATIVE
    num_crates &= NOT_NEGATIVE
    old &= NOT_NEGATIVE
    crate &= NOT_NEGATIVE
    start &= CELL_MASK
    end &= CELL_MASK
    stride = BITS + 2 * cell_words
    source = (old * stride) & NOT_NEGATIVE
    new = (count * stride) & NOT_NEGATIVE  # written behind the last arrangement, where it stays if it is new
    key = crate << CELL_BITS if num_crates else 0
    value = arrangements[source + HASH] ^ mix(key | start) ^ mix(key | end)
    for k in range(BITS, BITS + cell_words):
        arrangements[new + k] = arrangements[source + k]
    arrangements[new + BITS + (start >> 6)] ^= 1 << (start & 63)
    arrangements[new + BITS + (end >> 6)] ^= 1 << (end & 63)
    slot = value & mask
    while table[slot] >= 0:
        other = table[slot] & NOT_NEGATIVE
        if arrangements[((other * stride) & NOT_NEGATIVE) + HASH] == value:
            # All differences are counted, which is faster than a way out. `other` is not `old`, whose hash differs,
            # since `mix` is one to one; so a crate at `end`, where `old` has it at `start`, is one difference.
            differences = ZERO
            if num_crates:
                for i in range(num_crates):
                    differences += lists[2 * num_crates * old + i] != lists[2 * num_crates * other + i]
                differences -= lists[2 * num_crates * other + crate] == end
            else:
                for k in range(BITS, BITS + cell_words):
                    differences += arrangements[other * stride + k] != arrangements[new + k]
            if differences == 0:
                return other
        slot = (slot + 1) & mask
    table[slot] = count
    arrangements[new + HASH] = value
    arrangements[new + VALUE] = UNKNOWN
    for k in range(stride - cell_words, stride):
        arrangements[new + k] = 0
    if num_crates:
        for i in range(num_crates):
            lists[2 * num_crates * count + i] = lists[2 * num_crates * old + i]
        lists[2 * num_crates * count + crate] = end
    return count


@njit(cache=True, nogil=True)
def enlarge(arrangements, table, mask, count, stride):
    """Doubles the table's slots; returns the mask."""
    mask = 2 * mask + 1
    for slot in range(mask + 1):
        table[slot] = -1
    for number in range(count):
        slot = arrangements[number * stride + HASH] & mask
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = number
    return mask


@njit(cache=True, nogil=True)
def crate_search(room, player, crates, targets, ranks, dead, balance, power, count_duplicates, enough, known, space):
    """One search of gym-pcgrl's solver, over the player's cell and the ordered list of crates.

    Positions are recognised as duplicates when they are taken out of the queue, not when they are put in.

    Args:
        room: see `number_cells`.
        player: free cell.
        crates, targets: (n,) int64 free cells in row-major order, n >= 1.
        ranks: of `rank_targets`.
        dead: (cells,) bool; after a push no crate may stand on a dead cell.
        balance: weight of the depth against the heuristic in the order of the queue, in halves, or BREADTH_FIRST.
        power: budget in positions taken out of the queue.
        count_duplicates: whether a duplicate taken out counts against the budget (as in gym-pcgrl).
        enough: stop as soon as a position with a heuristic this small has been found (0: never).
        known: (2,) int64, what an earlier search of the same level left in the space, which nothing else has used
            since: the number of arrangements (0 to begin with) and the mask of the table.
        space: memory, see `search_space`.

    Returns:
        (won, iterations, heuristic, complete, node): whether a won position was reached; positions counted; heuristic
        of the best position (0 if won); whether the search ended before its budget; the won node, for `trace`.
    """
    beside, rows, columns = room
    nodes, arrangements, lists, heap, table = space
    num_crates = crates.shape[0]
    cell_words = (dead.shape[0] + 63) >> 6
    stride = (BITS + 2 * cell_words) & NOT_NEGATIVE
    seen_at = (BITS + cell_words) & NOT_NEGATIVE
    count = known[0]
    mask = known[1]
    most = count + 4 * power + 4  # arrangements there may be at the end of this search
    full = most * stride > arrangements.shape[0] or most * 2 * num_crates > lists.shape[0] or 2 * most >= table.shape[0]
    if count == 0 or full:
        mask = add_first(arrangements, table, crates, cell_words, ONE)
        arrangements[VALUE] = greedy_heuristic(lists, crates, targets, rows, columns)
        count = ONE
    else:
        for arrangement in range(count):
            for k in range(seen_at, stride):
                arrangements[arrangement * stride + k] = 0
    stuck = False  # then every push leaves a crate on a dead cell
    for i in range(num_crates):
        stuck |= dead[crates[i]]

    nodes[LINK] = -1
    nodes[STATE] = player
    nodes[DEPTH] = 0
    heap[0] = 0
    num_nodes = 1
    head = 0  # breadth-first: the queue is the nodes head:tail; best-first: a heap in heap[:tail]
    tail = ONE
    best = 1 << 30
    best_depth = 0
    iterations = 0
    won = -1
    while iterations < power and head < tail:
        if balance == BREADTH_FIRST:
            node = head
            head += 1
        else:
            # As Python's heapq. In place and not in a function of its own, even an inlined one: numba counts references
            # to the arrays of every call.
            node = heap[0] & ((1 << RANK_BITS) - 1)
            tail -= 1
            last = np.uint64(tail)
            hole, child = U_ZERO, U_ONE
            while child + U_ONE < last:  # the hole sinks to a leaf along the smaller children, the right one on ties
                # without a branch, which the processor would guess wrong half the time
                left = heap[child]
                right = heap[child + U_ONE]
                is_left = left >> RANK_BITS < right >> RANK_BITS
                heap[hole] = right ^ ((left ^ right) & -np.int64(is_left))
                hole = child + U_ONE - np.uint64(is_left)
                child = U_TWO * hole + U_ONE
            if child < last:
                heap[hole] = heap[child]
                hole = child
            entry = heap[last]
            while hole > U_ZERO:  # then the last entry rises from there
                above = (hole - U_ONE) >> U_ONE
                if not entry >> RANK_BITS < heap[above] >> RANK_BITS:
                    break
                heap[hole] = heap[above]
                hole = above
            heap[hole] = entry
        state = nodes[NODE_WORDS * node + STATE] & NOT_NEGATIVE
        arrangement = state >> CELL_BITS
        at = state & CELL_MASK
        base = (arrangement * stride) & NOT_NEGATIVE
        heuristic = arrangements[base + VALUE]
        if heuristic == 0:  # every crate is on a target
            iterations += 1
            won = node
            break
        seen = base + seen_at + (at >> 6)
        bit = 1 << (at & 63)
        if arrangements[seen] & bit:
            if count_duplicates:
                iterations += 1
            continue
        arrangements[seen] |= bit
        iterations += 1
        depth = nodes[NODE_WORDS * node + DEPTH]
        if heuristic < best or (heuristic == best and depth < best_depth):
            best = heuristic
            best_depth = depth
            if best <= enough:
                break
        for move in range(4):
            to = beside[4 * at + move]
            if to < 0:
                continue
            after = arrangement
            value = heuristic
            if (arrangements[base + BITS + (to >> 6)] >> (to & 63)) & 1:
                beyond = beside[4 * to + move]
                if beyond < 0 or stuck or dead[beyond]:
                    continue
                if (arrangements[base + BITS + (beyond >> 6)] >> (beyond & 63)) & 1:
                    continue
                first = 2 * num_crates * arrangement
                crate = ZERO
                while lists[first + crate] != to:
                    crate += 1
                after = push(
                    arrangements, lists, table, mask, count, cell_words, num_crates, arrangement, crate, to, beyond
                )
                if after == count:
                    arrangements[after * stride + VALUE] = heuristic_after_push(
                        lists, first, 2 * num_crates * after, heuristic, crate, num_crates, ranks
                    )
                    count += 1
                    if 2 * count > mask:
                        mask = enlarge(arrangements, table, mask, count, stride)
                value = arrangements[after * stride + VALUE]
            slot = (NODE_WORDS * num_nodes) & NOT_NEGATIVE
            nodes[slot + LINK] = 4 * node + move
            nodes[slot + STATE] = after << CELL_BITS | to
            nodes[slot + DEPTH] = depth + 1
            if balance != BREADTH_FIRST:
                rank = 2 * value + balance * (depth + 1)
                entry = rank << RANK_BITS | num_nodes
                hole = np.uint64(tail)
                while hole > U_ZERO:
                    above = (hole - U_ONE) >> U_ONE
                    if not entry >> RANK_BITS < heap[above] >> RANK_BITS:
                        break
                    heap[hole] = heap[above]
                    hole = above
                heap[hole] = entry
            tail += 1
            num_nodes += 1
    known[0] = count
    known[1] = mask
    if won >= 0:
        best = 0
    return won >= 0, iterations, best, head >= tail, won


@njit(cache=True, nogil=True)
def exact_search(room, player, crates, targets, dead, power, space):
    """Breadth-first search over the player's cell and the set of crates, each position kept once.

    Args:
        room: see `number_cells`.
        player: free cell.
        crates, targets: (n,) int64 free cells, n >= 1.
        dead: (cells,) bool; no crate is pushed onto a dead cell (`dead_squares`).
        power: budget in distinct positions.
        space: memory, see `search_space`.

    Returns:
        (status, node): SOLVED with the last node of a shortest solution in player moves (for `trace`); UNSOLVABLE if
        every position was seen; UNDECIDED if there are more than the budget.
    """
    beside = room[0]
    nodes, arrangements, lists, _, table = space
    for i in range(crates.shape[0]):
        if dead[crates[i]]:
            return UNSOLVABLE, -1
    cell_words = (dead.shape[0] + 63) >> 6
    stride = BITS + 2 * cell_words
    seen_at = BITS + cell_words
    mask = add_first(arrangements, table, crates, cell_words, ZERO)
    arrangements[seen_at + (player >> 6)] |= 1 << (player & 63)
    num_arrangements = ONE
    nodes[LINK] = -1
    nodes[STATE] = player
    nodes[DEPTH] = 0
    count = 1
    head = 0
    while head < count:
        state = nodes[NODE_WORDS * head + STATE]
        arrangement = state >> CELL_BITS
        at = state & CELL_MASK
        base = arrangement * stride
        for move in range(4):
            to = beside[4 * at + move]
            if to < 0:
                continue
            after = arrangement
            pushed = (arrangements[base + BITS + (to >> 6)] >> (to & 63)) & 1
            if pushed:
                beyond = beside[4 * to + move]
                if beyond < 0 or dead[beyond]:
                    continue
                if (arrangements[base + BITS + (beyond >> 6)] >> (beyond & 63)) & 1:
                    continue
                after = push(
                    arrangements, lists, table, mask, num_arrangements, cell_words, ZERO, arrangement, ZERO, to, beyond
                )
                if after == num_arrangements:
                    off = 0
                    for i in range(targets.shape[0]):
                        cell = targets[i]
                        off += 1 - ((arrangements[after * stride + BITS + (cell >> 6)] >> (cell & 63)) & 1)
                    arrangements[after * stride + VALUE] = off
                    num_arrangements += 1
                    if 2 * num_arrangements > mask:
                        mask = enlarge(arrangements, table, mask, num_arrangements, stride)
            seen = after * stride + seen_at + (to >> 6)
            bit = 1 << (to & 63)
            if arrangements[seen] & bit:
                continue
            if count >= power:
                return UNDECIDED, -1
            arrangements[seen] |= bit
            nodes[NODE_WORDS * count + LINK] = 4 * head + move
            nodes[NODE_WORDS * count + STATE] = after << CELL_BITS | to
            nodes[NODE_WORDS * count + DEPTH] = nodes[NODE_WORDS * head + DEPTH] + 1
            count += 1
            if pushed and arrangements[after * stride + VALUE] == 0:
                return SOLVED, count - 1
        head += 1
    return UNSOLVABLE, -1


@njit(cache=True, nogil=True)
def trace(nodes, node):
    """Moves from the first position to that of a node, (n,) int64."""
    length = nodes[NODE_WORDS * node + DEPTH]
    moves = words(length)
    while length > 0:
        length -= 1
        moves[length] = nodes[NODE_WORDS * node + LINK] & 3
        node = nodes[NODE_WORDS * node + LINK] >> 2
    return moves


@njit(cache=True, nogil=True)
def read_room(level):
    """Walls and targets of a level, with a wall all round.

    Args:
        level: (H, W) uint8.

    Returns:
        wall, target: ((H+2)*(W+2),) bool, flat.
    """
    height, width = level.shape
    wall = flags((height + 2) * (width + 2))
    target = flags((height + 2) * (width + 2))
    for cell in range(wall.shape[0]):
        wall[cell] = True
    for y in range(height):
        for x in range(width):
            cell = (y + 1) * (width + 2) + x + 1
            wall[cell] = level[y, x] == SOLID
            target[cell] = level[y, x] == TARGET
    return wall, target


@njit(cache=True, nogil=True)
def number_cells(level):
    """Numbers the free cells of a level in row-major order and finds what stands on them.

    Args:
        level: (H, W) uint8 with one player and as many crates as targets.

    Returns:
        room: (beside, rows, columns), int64: 4 * cell + move → the cell that a move L R U D leads to, or -1; row and
            column of a cell.
        player: its cell.
        crates, targets: (n,) int64, their cells.
        places: (cells,) int64, cell → its place in the flat room of `read_room`.
    """
    height, width = level.shape
    index = words(height * width)
    cells = ZERO
    num_crates = ZERO
    for y in range(height):
        for x in range(width):
            index[y * width + x] = -1
            if level[y, x] != SOLID:
                index[y * width + x] = cells
                cells += 1
            num_crates += level[y, x] == CRATE
    beside, rows, columns, places = words(4 * cells), words(cells), words(cells), words(cells)
    crates, targets = words(num_crates), words(num_crates)
    player = 0
    num_crates = 0
    num_targets = 0
    for y in range(height):
        for x in range(width):
            cell = index[y * width + x]
            if cell < 0:
                continue
            rows[cell] = y
            columns[cell] = x
            places[cell] = (y + 1) * (width + 2) + x + 1
            beside[4 * cell] = index[y * width + x - 1] if x > 0 else -1
            beside[4 * cell + 1] = index[y * width + x + 1] if x + 1 < width else -1
            beside[4 * cell + 2] = index[(y - 1) * width + x] if y > 0 else -1
            beside[4 * cell + 3] = index[(y + 1) * width + x] if y + 1 < height else -1
            tile = level[y, x]
            if tile == PLAYER:
                player = cell
            elif tile == CRATE:
                crates[num_crates] = cell
                num_crates += 1
            elif tile == TARGET:
                targets[num_targets] = cell
                num_targets += 1
    return (beside, rows, columns), player, crates, targets, places


@njit(cache=True, nogil=True)
def at_places(squares, places):
    """Which free cells are among some squares of the flat room, (cells,) bool."""
    result = flags(places.shape[0])
    for cell in range(places.shape[0]):
        result[cell] = squares[places[cell]]
    return result


@njit(cache=True, nogil=True, inline="always")
def solve_level(level, power, quirks, space):
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
        space: memory, see `search_space`.

    Returns:
        (status, dist_win, node): SOLVED, UNSOLVABLE (proven) or UNDECIDED; 0 if solved, else the smallest heuristic
        found; the last node of the solution (for `trace`; its DEPTH is the number of player moves), -1 without one.
    """
    width = level.shape[1] + 2
    wall, target = read_room(level)
    room, player, crates, targets, places = number_cells(level)
    dead = at_places(corner_deadlocks(wall, target, width), places)
    status = UNDECIDED
    first = 0
    enough = 0
    if not quirks:
        status, node = exact_search(
            room, player, crates, targets, at_places(dead_squares(wall, target, width), places), power, space
        )
        if status == SOLVED:
            return status, 0, node
        stuck = crates.shape[0] > MAX_CRATES
        for i in range(crates.shape[0]):
            stuck |= dead[crates[i]]  # then no push leads anywhere
        if stuck:
            return status, greedy_heuristic(space[2], crates, targets, room[1], room[2]), -1
        first = 1
        if status == UNSOLVABLE:
            first = 3
            enough = 1  # without a solution no heuristic is smaller
    best = 0
    known = words(ONE + ONE)
    known[0] = 0
    ranks = rank_targets(room[1], room[2], targets)
    for search in range(first, len(BALANCES)):
        won, _, best, complete, node = crate_search(
            room, player, crates, targets, ranks, dead, BALANCES[search], power, quirks, enough, known, space
        )
        if won:
            return SOLVED, 0, node
        if complete:
            status = UNSOLVABLE
    return status, best, -1
