// The page: shows the fight that the server plays, sends what the player does, and shows what the boss learned.
// No library, no network but this server.

const $ = (id) => document.getElementById(id);
const SHOWN_MS = 450; // how long a turn is shown before the next can be chosen
const STAGGERED_MS = 900; // who staggers can only wait; that passes by itself
const KEYS = {
  ArrowUp: "block-high", ArrowDown: "block-low", e: "attack-high", d: "attack-low", f: "special", " ": "dodge", s: "wait",
};
const TELLS = {
  waits: "The boss waits.", moves: "The boss shifts its weight: it will move or dodge.",
  strikes: "The boss lifts its club: an attack, high or low?", guards: "The boss lifts its shield: a block, high or low?",
  special: "The boss gathers its strength: the special!",
};
const TELL_POSES = { waits: "wait", moves: "moves", strikes: "strikes", guards: "guards", special: "charges" };

let rules = null;
let fight = null; // what the server last said of the fight
let phase = "idle"; // idle, choose (the player's turn), busy (sent, or being shown)
let wanted = null; // chosen while a turn is still shown
let deadline = 0; // when the turn passes by itself, 0: never
let turnBegan = 0;
let before = null; // the policy before the last fight
let boss = null; // what GET /boss says

// --- players: a name and a token each, kept in this browser

const store = {
  read(name, otherwise) {
    try { return JSON.parse(localStorage.getItem(`metapcg.${name}`)) ?? otherwise; } catch { return otherwise; }
  },
  write(name, value) {
    try { localStorage.setItem(`metapcg.${name}`, JSON.stringify(value)); } catch { /* private windows may refuse: then it lasts as long as the page */ }
  },
};
let players = store.read("players", []);
let current = store.read("current", 0);
const player = () => players[current];
const savePlayers = () => { store.write("players", players); store.write("current", current); };

// --- talking to the server

class Refused extends Error {
  constructor(status, line) { super(line); this.status = status; }
}

async function ask(method, path, body) {
  const headers = {};
  if (player()?.token) headers.Authorization = `Bearer ${player().token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Refused(0, "The server does not answer. Is it still running?");
  }
  const data = await answer.json().catch(() => ({ error: `The server failed (${answer.status}).` }));
  if (!answer.ok) throw new Refused(answer.status, data.error);
  return data;
}

function notice(text) {
  $("notice").textContent = text ?? "";
  $("notice").hidden = !text;
}

// What buttons ask for is done one after the other: nobody's boss is shown under another's name. Not to be nested.
let queue = Promise.resolve();
function attempt(work) {
  queue = queue.then(async () => {
    try {
      notice(null);
      return await work();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      notice(error.message);
      return undefined;
    }
  });
  const result = queue;
  queue = queue.catch(() => {});
  return result;
}

const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

// --- the fight

async function begin() {
  $("begin").disabled = true;
  const started = await attempt(async () => {
    await sendPending();
    return ask("POST", "fights", { tells: $("tells").checked });
  });
  $("begin").disabled = false;
  if (started) takeUp(started);
}

function takeUp(started) {
  fight = started;
  $("veil").hidden = true;
  $("give-up").disabled = false;
  $("happened").textContent = "Both choose at the same moment.";
  show();
  $("arena").focus({ preventScroll: true });
  nextTurn();
}

function nextTurn() {
  phase = "choose";
  turnBegan = performance.now();
  const pace = Number($("pace").value);
  const staggered = fight.state.playerStaggered;
  deadline = staggered ? turnBegan + STAGGERED_MS : pace ? turnBegan + pace : 0;
  showTell();
  showActions();
  requestAnimationFrame(tick);
  const action = wanted;
  wanted = null;
  if (action && fight.legal.includes(action)) choose(action);
}

function tick(now) {
  if (phase !== "choose") { $("clock").style.transform = "scaleX(0)"; return; }
  if (deadline) {
    $("clock").style.transform = `scaleX(${Math.max(0, 1 - (now - turnBegan) / (deadline - turnBegan))})`;
    if (now >= deadline) { choose("wait"); return; }
  }
  requestAnimationFrame(tick);
}

async function choose(action) {
  if (phase === "busy" && fight) { wanted = action; markChosen(action); return; }
  if (phase !== "choose" || !fight.legal.includes(action)) return;
  phase = "busy";
  markChosen(action);
  const played = await playTurn(action);
  if (!played) { endWithoutResult(); return; }
  fight = played;
  show();
  await pause(SHOWN_MS);
  if (phase !== "busy" || fight !== played) return; // given up meanwhile
  if (fight.over) await finish(); else nextTurn();
}

// A turn is sent until the server has it: its number keeps it from being played twice.
async function playTurn(action) {
  const sent = fight;
  for (let tries = 0; fight === sent; tries += 1) {
    try {
      const played = await ask("POST", "fights/step", { fight: sent.fight, turn: sent.turn, action });
      notice(null);
      return played;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (error.status === 0 && tries < 30) { notice(`${error.message} Trying again …`); await pause(1000); continue; }
      // Played, but the answer was lost? Then the server is one turn ahead.
      const now = error.status === 409 ? await attempt(() => ask("GET", "fights")) : undefined;
      if (now?.fight?.fight === sent.fight && now.fight.turn > sent.turn) return now.fight;
      notice(now && !now.fight ? "The server was restarted or the boss reset: this fight is lost." : error.message);
      return undefined;
    }
  }
  return undefined;
}

function endWithoutResult() {
  phase = "idle";
  fight = null;
  wanted = null;
  $("veil").hidden = false;
  $("veil-text").textContent = "This fight does not count.";
  $("give-up").disabled = true;
  $("tell").textContent = "\u00a0";
  showActions();
}

async function finish() {
  const { bossDied, playerDied } = fight.entry.log.result;
  const result = bossDied === playerDied ? "none" : bossDied ? "player" : "boss";
  phase = "idle";
  $("tell").textContent = "\u00a0";
  $("give-up").disabled = true;
  showActions();
  const turns = `after ${fight.turn} turns`;
  $("veil-text").textContent = { player: `You won ${turns}.`, boss: `The boss won ${turns}.`, none: `Nobody won ${turns}.` }[result];
  $("veil").hidden = false;
  $("begin").textContent = "Fight again";
  $("begin").focus({ preventScroll: true });
  // Kept until the server has it, even if page or server end now.
  player().pending = fight.entry;
  savePlayers();
  await attempt(sendPending);
}

async function sendPending() {
  const entry = player()?.pending;
  if (!entry) return;
  const who = player();
  try {
    showLearned(await ask("POST", "learn", entry));
  } catch (error) {
    if (!(error instanceof Refused) || error.status === 0 || error.status >= 500) throw error;
    if (error.status !== 409) notice(`The boss did not learn from this fight: ${error.message}`);
    await refresh();
  }
  delete who.pending;
  savePlayers();
}

// --- showing the fight

const percent = (hp) => (hp > 0 ? Math.max(1, Math.round(100 * hp)) : 0);
const place = (x) => 40 + (920 * x) / rules.laneLength;

function show() {
  const { state, last } = fight;
  $("turn").textContent = fight.turn;
  for (const [id, other] of [["you", "boss"], ["boss", "you"]]) {
    const name = { you: "player", boss: "boss" };
    const hp = state[`${name[id]}HP`];
    $(`${id}-hp`).textContent = percent(hp);
    $(`${id}-bar`).style.transform = `scaleX(${hp})`;
    const group = $(id);
    const x = state[`${name[id]}X`];
    group.style.transform = `translate(${place(x)}px, 0)`;
    group.querySelector(".facing").style.transform = state[`${name[other]}X`] > x ? "none" : "scaleX(-1)";
    group.dataset.pose = last ? last[name[id]] : "wait";
    group.dataset.staggered = state[`${name[id]}Staggered`] ? "yes" : "no";
    group.dataset.dead = hp > 0 ? "no" : "yes";
    const damage = group.querySelector(".damage");
    const lost = last ? Math.round(100 * last[`${name[id]}Lost`]) : 0;
    damage.classList.remove("shown");
    damage.textContent = lost ? `−${lost}` : "";
    void damage.getBoundingClientRect(); // so that the animation begins anew
    damage.classList.toggle("shown", lost > 0);
  }
  zone("attack-zone", state.bossX, rules.attackReach, !state.bossStaggered);
  zone("special-zone", state.bossX, rules.specialReach, !state.bossStaggered && state.bossSpecial === 0);
  if (last) $("happened").textContent = last.text;
  const distance = Math.abs(state.bossX - state.playerX).toFixed(1);
  $("arena").setAttribute("aria-label", `The lane, ${rules.laneLength} metres. You have ${percent(state.playerHP)} hit points, the boss ${percent(state.bossHP)}; ${distance} metres between you.`);
}

function zone(id, x, reach, active) {
  const rect = $(id).firstElementChild;
  const left = Math.max(16, place(x - reach));
  rect.setAttribute("x", left);
  rect.setAttribute("width", active ? Math.min(984, place(x + reach)) - left : 0);
}

function showTell() {
  const { tell, state } = fight;
  const text = state.bossStaggered ? "The boss staggers: strike now!" : tell ? TELLS[tell] : "";
  $("tell").textContent = text || "\u00a0";
  if (tell && !state.bossStaggered) $("boss").dataset.pose = TELL_POSES[tell]; else $("boss").dataset.pose = "wait";
  $("you").dataset.pose = "wait";
}

function showActions() {
  const playing = fight !== null && !fight.over && phase !== "idle";
  for (const button of $("actions").children) {
    const { action } = button.dataset;
    // While a turn is shown buttons stay on, so that focus stays where it is.
    button.disabled = !(playing && fight.legal.includes(action));
    button.classList.remove("chosen");
    let note = "";
    if (playing) {
      const { state } = fight;
      const distance = Math.abs(state.bossX - state.playerX);
      const rest = action === "special" ? state.playerSpecial : action === "dodge" ? state.playerDodge : 0;
      if (state.playerStaggered && action !== "wait") note = "you stagger";
      else if (rest) note = `rests ${rest} turn${rest > 1 ? "s" : ""}`;
      else if (action.startsWith("attack")) note = distance <= rules.attackReach ? "in reach" : "too far";
      else if (action === "special") note = distance <= rules.specialReach ? "in reach" : "too far";
    }
    button.querySelector("i").textContent = note;
  }
}

function markChosen(action) {
  for (const button of $("actions").children) button.classList.toggle("chosen", button.dataset.action === action);
}

// --- showing what was learned

async function refresh() {
  boss = await ask("GET", "boss");
  before = null;
  showBoss();
}

function showLearned(answer) {
  boss = { ...boss, ...answer }; // the anchor's policy is not sent again
  before = answer.before;
  $("sentence").textContent = answer.sentence;
  showBoss();
  if (answer.learned > 1) $("sentence").textContent = `Learned from ${answer.learned} fights. ${answer.sentence}`;
}

function share(wins, fights) {
  return fights ? `${wins} (${Math.round((100 * wins) / fights)} %)` : "0";
}

function showBoss() {
  const { results } = boss;
  $("fights").textContent = boss.fights;
  $("player-wins").textContent = share(boss.playerWins, boss.fights);
  $("boss-wins").textContent = share(boss.bossWins, boss.fights);
  const five = results.slice(-5);
  $("last-five").textContent = five.length ? `${five.filter((r) => r.result === "player").length} of ${five.length} won` : "–";
  $("distance").textContent = boss.distance.toFixed(2);
  if (!boss.fights) $("sentence").textContent = "Nothing yet: it fights as it was trained, against simulated players.";
  else if (!before) $("sentence").textContent = `It has learned from ${boss.fights} fight${boss.fights > 1 ? "s" : ""} with you.`;
  $("results").replaceChildren(...results.map(({ result, steps }) => {
    const item = document.createElement("li");
    item.className = result;
    item.textContent = { player: "Y", boss: "B", none: "=" }[result];
    const text = `${{ player: "you", boss: "the boss", none: "nobody" }[result]} won, ${steps} turns`;
    item.title = text;
    item.setAttribute("aria-label", text);
    return item;
  }));
  showPolicy();
}

// The situation in which the boss changed most, so that what is shown first is what happened.
function mostChanged() {
  let best = null;
  for (const [situation, row] of Object.entries(before)) {
    for (const [action, p] of Object.entries(row)) {
      const change = Math.abs(boss.now[situation][action] - p);
      if (!best || change > best.change) best = { situation, change };
    }
  }
  return best.situation;
}

function showPolicy() {
  if (before && before !== showPolicy.shown) $("situation").value = mostChanged();
  showPolicy.shown = before;
  const situation = $("situation").value;
  const now = boss.now[situation];
  const old = (before ?? boss.now)[situation];
  const start = boss.anchor[situation];
  const most = Object.keys(now).reduce((a, b) => (now[a] >= now[b] ? a : b));
  const body = $("policy").tBodies[0];
  const actions = rules.actions;
  if (!body.rows.length) {
    for (const action of actions) {
      const row = body.insertRow();
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = rules.actionWords[action];
      row.append(head);
      const track = document.createElement("div");
      track.className = "track";
      for (const name of ["now", "before", "anchor"]) {
        const part = document.createElement("div");
        part.className = name;
        track.append(part);
      }
      row.insertCell().append(track);
      row.insertCell().className = "number";
      row.insertCell().className = "number";
    }
  }
  const largest = Math.max(0.4, ...actions.map((a) => Math.max(now[a], old[a], start[a])));
  const width = (p) => `${(96 * p) / largest}%`;
  actions.forEach((action, i) => {
    const row = body.rows[i];
    row.classList.toggle("most", action === most);
    const [nowBar, beforeBar, anchorTick] = row.cells[1].firstElementChild.children;
    nowBar.style.width = width(now[action]);
    beforeBar.style.width = before ? width(old[action]) : "0";
    anchorTick.style.left = width(start[action]);
    row.cells[2].textContent = before ? `${Math.round(100 * old[action])} %` : "–";
    row.cells[3].textContent = `${Math.round(100 * now[action])} %`;
  });
}

// --- players and files

function showPlayers() {
  $("player").replaceChildren(...players.map(({ name }, i) => new Option(name, i, false, i === current)));
}

async function addPlayer(name) {
  const { token } = await ask("POST", "players");
  players.push({ name, token });
  await switchTo(players.length - 1);
}

async function switchTo(number) {
  if (phase !== "idle") endWithoutResult();
  $("begin").disabled = true; // until it is known whether a fight goes on
  delete $("begin").dataset.resume;
  $("begin").textContent = "Fight";
  current = number;
  savePlayers();
  showPlayers();
  try {
    await meet();
  } finally {
    $("begin").disabled = false;
  }
}

async function meet() {
  try {
    await refresh();
  } catch (error) {
    // Another folder of data, or deleted elsewhere: the name stays, the boss is a new one.
    if (error.status !== 401) throw error;
    delete player().token;
    player().token = (await ask("POST", "players")).token;
    savePlayers();
    notice("The server does not know this player any more; the boss starts anew.");
    await refresh();
  }
  await sendPending();
  const going = (await ask("GET", "fights")).fight;
  if (going && !going.over) {
    fight = going;
    show();
    $("veil-text").textContent = "A fight is going on.";
    $("begin").textContent = "Go on";
    $("begin").dataset.resume = "yes";
  }
}

function question(text, yes, name) {
  $("ask-text").textContent = text;
  $("ask-yes").textContent = yes;
  $("ask-label").hidden = name === undefined;
  $("ask-name").value = name ?? "";
  $("ask-name").required = name !== undefined;
  const dialog = $("ask");
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => {
    dialog.addEventListener("close", () => done(dialog.returnValue === "yes" ? $("ask-name").value.trim() || "yes" : null), { once: true });
  });
}

$("begin").addEventListener("click", async () => {
  if ($("begin").dataset.resume) {
    delete $("begin").dataset.resume;
    $("begin").textContent = "Fight";
    takeUp(fight);
  } else await begin();
});
$("give-up").addEventListener("click", () => { endWithoutResult(); $("begin").focus(); });
$("actions").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button && !button.disabled) choose(button.dataset.action);
});
$("player").addEventListener("change", () => attempt(() => switchTo(Number($("player").value))));
$("add-player").addEventListener("click", async () => {
  const name = await question("A new player meets a boss of their own.", "Add", `Player ${players.length + 1}`);
  if (name) await attempt(() => addPlayer(name));
});
$("delete-player").addEventListener("click", async () => {
  if (!await question(`Delete ${player().name}, with all that the boss learned from them?`, "Delete")) return;
  await attempt(async () => {
    await ask("DELETE", "players");
    players.splice(current, 1);
    if (players.length) await switchTo(0); else { current = 0; await addPlayer("Player 1"); }
  });
});
$("reset").addEventListener("click", async () => {
  if (!await question("The boss will forget all fights with this player and be as it was at the start.", "Forget")) return;
  await attempt(async () => {
    if (phase !== "idle") endWithoutResult();
    boss = await ask("POST", "reset");
    before = null;
    showBoss();
  });
});
$("export").addEventListener("click", () => attempt(async () => {
  const data = await ask("GET", "export");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(data)], { type: "application/json" }));
  link.download = "fights.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}));
$("import").addEventListener("click", () => $("import-file").click());
$("import-file").addEventListener("change", () => attempt(async () => {
  const [file] = $("import-file").files;
  $("import-file").value = "";
  if (!file) return;
  let data;
  try { data = JSON.parse(await file.text()); } catch { throw new Refused(400, `${file.name} is not JSON.`); }
  showLearned(await ask("POST", "import", data));
}));
$("situation").addEventListener("change", showPolicy);
$("theme").addEventListener("change", () => { store.write("theme", $("theme").value); applyTheme(); });
for (const id of ["pace", "tells"]) {
  $(id).addEventListener("change", () => store.write(id, id === "tells" ? $(id).checked : $(id).value));
}

function applyTheme() {
  const theme = $("theme").value;
  if (theme === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme;
}

document.addEventListener("keydown", (event) => {
  if (phase === "idle" || event.ctrlKey || event.metaKey || event.altKey || $("ask").open) return;
  const inControl = event.target.closest("select, input, textarea, summary");
  if (inControl) return;
  // Space and Enter work the button that has the focus, as everywhere.
  if (event.target.closest("button") && (event.key === " " || event.key === "Enter")) return;
  let action = KEYS[event.key] ?? KEYS[event.key.toLowerCase()];
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    const bossIsRight = fight.state.bossX > fight.state.playerX;
    action = (event.key === "ArrowRight") === bossIsRight ? "approach" : "retreat";
  }
  if (!action) return;
  event.preventDefault();
  if (!event.repeat) choose(action);
});

async function main() {
  $("theme").value = store.read("theme", "system");
  $("pace").value = store.read("pace", "2500");
  $("tells").checked = store.read("tells", true);
  applyTheme();
  rules = await ask("GET", "rules");
  $("max-turns").textContent = rules.maxSteps;
  $("situation").replaceChildren(...Object.entries(rules.situationWords).map(([value, text]) => new Option(text.toLowerCase(), value)));
  fight = { state: { playerX: 2.5, bossX: 7.5, playerHP: 1, bossHP: 1 }, last: null, turn: 0, legal: [] };
  show();
  fight = null;
  showActions();
  if (current >= players.length) current = 0;
  if (players.length) await switchTo(current); else await addPlayer("Player 1");
}

attempt(main);
