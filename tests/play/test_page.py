"""The page in a real browser: a whole fight by keys, by keyboard alone, by touch; contrast; lost answers.

Headless Chromium, driven by Playwright. The browser is the one that is installed (``CHROMIUM`` or on the PATH: on
Debian ``apt-get install chromium``); Playwright's own download is not used. Without either these tests are skipped.
"""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from play_server import Server, make_entry

if os.environ.get("CI"):  # there both have to be installed
    import playwright.sync_api as playwright
else:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install -e '.[test]'")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"), reason="Chromium is missing: apt-get install chromium"
)

KEYS = {
    "block-high": "ArrowUp",
    "block-low": "ArrowDown",
    "attack-high": "e",
    "attack-low": "d",
    "special": "f",
    "dodge": "Space",
    "wait": "s",
}


@pytest.fixture(scope="module")
def browser():
    assert CHROMIUM, "continuous integration has to test the page: install chromium"
    with playwright.sync_playwright() as driver:
        # The sandbox of Chromium refuses to run as root, as which CI runs.
        arguments = ["--disable-gpu", "--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else ["--disable-gpu"]
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser, server):
    """Opens the page in a fresh profile; at the end nothing may have been complained about on the console."""
    contexts, complaints = [], []

    def open_it(address=None, expected=(), **settings):
        settings.setdefault("reduced_motion", "reduce")
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **settings)
        context.set_default_timeout(30_000)
        contexts.append(context)
        page = context.new_page()
        # Turns wait for the test, however slow the machine is.
        page.add_init_script("localStorage['metapcg.pace'] ??= '\"0\"'")

        def note(text):
            if not any(part in text for part in expected):
                complaints.append(text)

        page.on("console", lambda message: note(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: note(str(error)))
        # Whatever is asked for has to be asked of the server.
        page.on(
            "request",
            lambda request: (
                request.url.startswith((f"http://127.0.0.1:{server.port}/", "blob:", "data:"))
                or note(f"asked elsewhere: {request.url}")
            ),
        )
        page.goto(address or f"http://127.0.0.1:{server.port}/")
        page.wait_for_selector("#policy tbody tr")
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert complaints == []


def begin(page):
    page.click("#begin")
    page.wait_for_selector("#veil", state="hidden")


def fight_on(page):
    """Whether a fight is going on."""
    return not page.is_visible("#veil")


def press_through_the_fight(page):
    """Play by keys until the fight is over; the number of turns."""
    turn = -1
    deadline = time.monotonic() + 90
    while fight_on(page):
        assert time.monotonic() < deadline, "the fight does not end"
        now = int(page.inner_text("#turn"))
        if now == turn:
            page.wait_for_timeout(30)
            continue
        turn = now
        # Close in, then attack high and low in turns; it does not matter who wins.
        note = page.inner_text("[data-action=attack-high] i")
        page.keyboard.press("ArrowRight" if note == "too far" else "e" if turn % 2 else "d")
    return int(page.inner_text("#turn"))


def test_a_whole_fight_by_keys_and_the_boss_learns(open_page, server, tmp_path):
    page = open_page(reduced_motion="no-preference")
    assert page.inner_text("#fights") == "0" and "Nothing yet" in page.inner_text("#sentence")
    begin(page)
    assert page.evaluate("document.activeElement.id") == "arena"
    page.keyboard.press("ArrowRight")
    turns = press_through_the_fight(page)
    assert 2 <= turns <= 60
    page.wait_for_selector("#results li")
    assert page.inner_text("#fights") == "1"
    assert f"after {turns} turns" in page.inner_text("#veil-text")
    assert "the boss will" in page.inner_text("#sentence")
    (player,) = server.store.players.values()
    learner = player.boss()
    assert learner.fights == 1 and float(page.inner_text("#distance")) == pytest.approx(learner.distance(), abs=0.005)
    # The bars show the policy before and now, in the situation that changed most.
    before, now = (
        [int(cell.split()[0]) for cell in page.locator(f"#policy tbody td:nth-child({n})").all_inner_texts()]
        for n in (3, 4)
    )
    assert before != now and 95 <= sum(before) <= 105 and 95 <= sum(now) <= 105
    screenshot = tmp_path / "after-a-fight.png"
    page.screenshot(path=str(screenshot))
    assert screenshot.stat().st_size > 20_000


def test_arrows_walk_where_they_point_after_a_roll_too(open_page, server):
    page = open_page()
    begin(page)
    for key, sign in (("ArrowRight", 1), ("ArrowLeft", -1)):
        before = current(server).state.x[1]
        press_and_wait(page, key)
        assert (current(server).state.x[1] - before) * sign > 0
    # Changed sides: the boss stands to the left now.
    state = current(server).state
    state.x[:] = 2.0, 6.0
    page.reload()
    page.wait_for_selector("#policy tbody tr")
    begin(page)
    press_and_wait(page, "ArrowLeft")
    assert current(server).state.x[1] == pytest.approx(5.0)


def current(server):
    (player,) = server.store.players.values()
    return player.match._fight


def press_and_wait(page, key):
    turn = int(page.inner_text("#turn"))
    page.keyboard.press(key)
    page.wait_for_selector(f"#turn:text-is('{turn + 1}')")
    page.wait_for_timeout(600)


def test_everything_is_reached_and_worked_by_the_keyboard_alone(open_page, server):
    page = open_page()
    reached, outlines = [], {}
    for _ in range(60):
        page.keyboard.press("Tab")
        here = page.evaluate(
            """() => { const e = document.activeElement; const s = getComputedStyle(e);
            const name = e.id || e.dataset.action || e.tagName;
            return [name, s.outlineStyle, parseFloat(s.outlineWidth), e.matches(':focus-visible')]; }"""
        )
        if here[0] == "BODY" or here[0] in reached:
            break
        reached.append(here[0])
        outlines[here[0]] = here[1:]
    wanted = page.evaluate(
        """() => [...document.querySelectorAll('a[href], button, select, input, summary, [tabindex="0"]')]
        .filter((e) => e.checkVisibility() && !e.disabled).map((e) => e.id || e.dataset.action || e.tagName)"""
    )
    assert sorted(reached) == sorted(wanted)
    for name, (style, width, visible) in outlines.items():
        assert visible and style != "none" and width >= 2, f"no visible focus on {name}"
    # A fight by Tab, Enter and Space only: the buttons of the actions.
    page.focus("#pace")
    page.keyboard.press("Home")
    assert page.input_value("#pace") == "4000"
    page.keyboard.press("End")
    assert page.input_value("#pace") == "0"
    page.focus("#begin")
    page.keyboard.press("Enter")
    page.wait_for_selector("#veil", state="hidden")
    names = []
    for _ in range(20):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.dataset.action"))
        if names[-1] == "wait":
            break
    assert len(set(names)) >= 9, names
    page.keyboard.press("Space")
    page.wait_for_selector("#turn:text-is('1')")
    assert current(server).log()["steps"][0]["state"]["playerLast"] == "wait"
    assert page.evaluate("document.activeElement.dataset.action") == "wait", "the focus stays on the button"
    # A dialog: opened by Enter, left by Escape, and nothing has happened.
    page.focus("#reset")
    page.keyboard.press("Enter")
    page.wait_for_selector("#ask[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#ask", state="hidden")
    assert page.evaluate("document.activeElement.id") == "reset"
    assert int(page.inner_text("#turn")) >= 1


CONTRASTS = Path(__file__).with_name("contrasts.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_a_contrast_of_at_least_4_5(open_page, server, scheme):
    page = open_page(color_scheme=scheme)
    player = next(iter(server.store.players.values()))
    token = json.loads(page.evaluate("localStorage['metapcg.players']"))[0]["token"]
    assert server.store.find(token) is player
    server.token = token
    for seed in (1, 2, 3):
        server.post("/learn", make_entry(seed))
    page.reload()
    page.wait_for_selector("#results li")
    measured = page.evaluate(CONTRASTS)
    page.click("summary")
    begin(page)
    page.keyboard.press("f")
    page.wait_for_selector("[data-action=special]:disabled")
    measured += page.evaluate(CONTRASTS)
    page.evaluate(
        """() => { const show = (id) => { document.getElementById(id).textContent = id; };
        document.getElementById('notice').hidden = false; document.getElementById('ask').showModal();
        show('notice'); show('ask-text'); }"""
    )
    measured += page.evaluate(CONTRASTS)
    assert len(measured) > 200
    names = " ".join(name for _, name in measured)
    assert "notice" in names and "ask" in names and "tell" in names
    low = sorted({(round(ratio, 2), name) for ratio, name in measured if ratio < 4.5})
    assert low == []


def test_the_measure_of_contrast_knows_black_and_grey(open_page):
    page = open_page()
    page.evaluate(
        """() => { const p = document.getElementById('happened'); p.textContent = 'grey on white';
        p.style.color = '#777777'; p.style.backgroundColor = '#ffffff'; }"""
    )
    (ratio,) = [ratio for ratio, name in page.evaluate(CONTRASTS) if "grey on white" in name]
    assert ratio == pytest.approx(4.48, abs=0.01)  # the known example: just too little


def test_a_narrow_phone_with_touch(open_page, server, tmp_path):
    page = open_page(has_touch=True, is_mobile=True, device_scale_factor=2, color_scheme="dark")
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360, "scrolls sideways"
    page.tap("#begin")
    page.wait_for_selector("#veil", state="hidden")
    for button in page.locator("#actions button").all():
        box = button.bounding_box()
        assert box["width"] >= 44 and box["height"] >= 44, "too small for a finger"
    page.tap("[data-action=approach]")
    page.wait_for_selector("#turn:text-is('1')")
    assert current(server).log()["steps"][0]["action"]
    assert int(current(server).state.last[1]) == 1
    page.screenshot(path=str(tmp_path / "phone.png"))


def test_time_runs_out_and_the_turn_passes(open_page, server):
    page = open_page()
    page.select_option("#pace", "1500")
    begin(page)
    since = time.monotonic()
    page.wait_for_selector("#turn:text-is('1')")
    assert 1.0 < time.monotonic() - since < 20.0
    assert int(current(server).state.last[1]) == 0


def test_without_reduced_motion_things_move_and_with_it_they_do_not(open_page):
    for motion, moves in (("no-preference", True), ("reduce", False)):
        page = open_page(reduced_motion=motion)
        duration = page.evaluate("getComputedStyle(document.querySelector('.fighter')).transitionDuration")
        assert (duration != "0s") is moves


def test_colours_can_be_chosen_against_the_system(open_page):
    page = open_page(color_scheme="light")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.select_option("#theme", "dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    page.reload()
    page.wait_for_selector("#policy tbody tr")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark


def test_a_reload_goes_on_with_the_fight(open_page, server):
    page = open_page()
    begin(page)
    press_and_wait(page, "ArrowRight")
    page.reload()
    page.wait_for_selector("#begin:text-is('Go on')")
    begin(page)
    press_and_wait(page, "ArrowRight")
    assert int(current(server).state.step) == 2


def test_players_have_bosses_of_their_own_and_can_be_deleted(open_page, server):
    page = open_page()
    tokens = [json.loads(page.evaluate("localStorage['metapcg.players']"))[0]["token"]]
    server.token = tokens[0]
    server.post("/learn", make_entry(1))
    page.click("#add-player")
    page.fill("#ask-name", "Ana")
    page.click("#ask-yes")
    page.wait_for_selector("#player option:checked:text-is('Ana')", state="attached")
    page.wait_for_selector("#fights:text-is('0')")
    page.select_option("#player", label="Player 1")
    page.wait_for_selector("#fights:text-is('1')")
    page.click("#delete-player")
    page.click("#ask-yes")
    page.wait_for_selector("#fights:text-is('0')")
    assert page.locator("#player option").all_inner_texts() == ["Ana"]
    assert server.store.find(tokens[0]) is None and len(server.store.players) == 1


def test_fights_are_saved_forgotten_and_learned_again(open_page, server, tmp_path):
    page = open_page()
    server.token = json.loads(page.evaluate("localStorage['metapcg.players']"))[0]["token"]
    for seed in (1, 2):
        server.post("/learn", make_entry(seed))
    page.reload()
    page.wait_for_selector("#fights:text-is('2')")
    distance = page.inner_text("#distance")
    with page.expect_download() as saved:
        page.click("#export")
    path = tmp_path / "fights.json"
    saved.value.save_as(path)
    page.click("#reset")
    page.click("#ask-yes")
    page.wait_for_selector("#fights:text-is('0')")
    assert page.inner_text("#distance") == "0.00"
    page.set_input_files("#import-file", path)
    page.wait_for_selector("#fights:text-is('2')")
    assert page.inner_text("#distance") == distance and "2 fights" in page.inner_text("#sentence")
    (tmp_path / "wrong.json").write_text("{")
    page.set_input_files("#import-file", tmp_path / "wrong.json")
    page.wait_for_selector("#notice:text-is('wrong.json is not JSON.')")


def test_a_fight_whose_answer_was_lost_is_sent_again_and_counts_once(open_page, server):
    page = open_page(expected=["net::ERR_FAILED", "409"])
    # As the page keeps it from the end of the fight to the answer.
    page.evaluate(
        """(entry) => { const players = JSON.parse(localStorage['metapcg.players']);
        players[0].pending = entry; localStorage['metapcg.players'] = JSON.stringify(players); }""",
        make_entry(1),
    )
    lost = []

    def lose(route):
        # The server learns, and the answer does not come back.
        if lost:
            route.continue_()
        else:
            lost.append(route.fetch().status)
            route.abort()

    page.route("**/learn", lose)
    page.reload()
    page.wait_for_selector("#notice:has-text('does not answer')")
    assert lost == [200] and "pending" in page.evaluate("localStorage['metapcg.players']")
    page.click("#begin")  # the next fight begins with sending the last one
    page.wait_for_selector("#veil", state="hidden")
    assert page.inner_text("#fights") == "1"
    assert "pending" not in page.evaluate("localStorage['metapcg.players']")
    (player,) = server.store.players.values()
    assert player.boss().fights == 1


def test_a_turn_whose_answer_was_lost_is_not_played_twice(open_page, server):
    page = open_page(expected=["net::ERR_FAILED", "409"])
    lost = []

    def lose(route):
        if lost:
            route.continue_()
        else:
            lost.append(route.fetch().status)
            route.abort()

    page.route("**/fights/step", lose)
    begin(page)
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#turn:text-is('1')")
    page.wait_for_timeout(700)
    press_and_wait(page, "ArrowRight")
    assert int(current(server).state.step) == 2


def test_a_server_with_another_folder_makes_the_player_anew(open_page, server, tmp_path):
    page = open_page(expected=["401"])
    old = page.evaluate("localStorage['metapcg.players']")
    server.ask("DELETE", "/players", headers={"Authorization": f"Bearer {json.loads(old)[0]['token']}"})
    page.reload()
    page.wait_for_selector("#notice:has-text('does not know this player')")
    assert page.evaluate("localStorage['metapcg.players']") != old and len(server.store.players) == 1


def test_another_page_cannot_send_anything_to_the_server(browser, server, tmp_path):
    """A page of another origin, open in the same browser, tries all that it can."""
    with Server(tmp_path / "other") as elsewhere:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{elsewhere.port}/static/icon.svg")
        results = page.evaluate(
            """async (address) => { const results = [];
            for (const settings of [{ method: 'POST' }, { method: 'POST', mode: 'no-cors' },
                { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' }]) {
              try { results.push((await fetch(address, settings)).type); } catch { results.push('refused'); } }
            return results; }""",
            f"http://127.0.0.1:{server.port}/players",
        )
        page.close()
    assert results[0] == results[2] == "refused"
    assert len(server.store.players) == 0
