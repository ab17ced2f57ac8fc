//! Looks, after quiet has come, whether anything was lost, doubled or left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant};

use innkeeper::domain::turn_record::{Sent, Stage, TurnRecord};
use innkeeper::store::{EntryFilter, Store};
use serde_json::Value;

use super::house::{self, House};
use super::people::{By, People, Request};
use super::trouble::Trouble;

/// How long everything may take to come to rest.
const REST: Duration = Duration::from_secs(180);

/// The world counts as quiet when it did not change for this long.
const QUIET: Duration = Duration::from_secs(3);

pub(crate) struct Found {
    pub(crate) faults: Vec<String>,
    /// How it went, in one line.
    pub(crate) told: String,
}

/// Waits until nothing is left to do, then stops the bot.
pub(crate) async fn settle(house: &mut House) -> Vec<String> {
    let began = Instant::now();
    let mut faults = Vec::new();
    loop {
        quiet(house, began).await;
        faults.extend(house.bot_is_well().err());
        faults.extend(house.stop_bot().await.err());
        let store = Store::open(&house.store()).unwrap();
        let left = store.unfinished().unwrap().len() + store.pending().unwrap().len();
        if left == 0 {
            return faults;
        }
        if began.elapsed() > REST {
            for turn in store.unfinished().unwrap() {
                faults.push(format!(
                    "turn {} never came to its end: {:?}",
                    turn.id, turn.stage
                ));
            }
            for notice in store.pending().unwrap() {
                faults.push(format!("a notice was never said: {notice:?}"));
            }
            return faults;
        }
        drop(store);
        house.start_bot();
    }
}

/// Waits until the bot has heard everything, no live message works and nothing changes.
async fn quiet(house: &House, began: Instant) {
    let mut last = Value::Null;
    let mut since = Instant::now();
    while began.elapsed() < REST {
        let world = house.world().await;
        let works = house::places(&world)
            .into_iter()
            .flat_map(house::bots)
            .any(works);
        if works || world != last || !house.has_caught_up() {
            since = Instant::now();
            last = world;
        } else if since.elapsed() > QUIET {
            return;
        }
        tokio::time::sleep(house::LOOK * 4).await;
    }
}

/// A live message that has not become a receipt.
fn works(message: &Value) -> bool {
    house::is_silent(message)
        && !house::buttons(message)
            .iter()
            .any(|id| id.starts_with("1:details:"))
}

/// What is held against each other.
pub(crate) struct Evidence {
    pub(crate) world: Value,
    pub(crate) store: Store,
    /// The marks that agents wrote down as they began, one a line.
    pub(crate) performed: String,
    /// The marks of the files that agents wrote, likewise.
    pub(crate) written: String,
    /// What agents say they cost: one JSON object a line.
    pub(crate) tally: String,
    /// The stand-in's record of requests.
    pub(crate) requests: Vec<Value>,
}

impl Evidence {
    /// Gathers it from a house whose bot was stopped.
    pub(crate) async fn of(house: &House, world: Value) -> Evidence {
        let text = |file: &str| std::fs::read_to_string(house.shared(file)).unwrap();
        Evidence {
            world,
            store: Store::open(&house.store()).unwrap(),
            performed: text("performed"),
            written: text("written"),
            tally: text("tally"),
            requests: house.requests().await,
        }
    }
}

/// Judges.
pub(crate) fn judge(evidence: &Evidence, people: &People, trouble: &Trouble) -> Found {
    let mut court = Court::new(evidence, people, trouble);
    court.store_fits();
    court.messages();
    court.requests();
    court.retried();
    court.files();
    court.books();
    court.processes();
    court.one_at_a_time(&evidence.requests);
    Found {
        told: court.told(),
        faults: court.faults,
    }
}

struct Court<'a> {
    world: &'a Value,
    people: &'a People,
    trouble: &'a Trouble,
    store: &'a Store,
    turns: BTreeMap<u64, TurnRecord>,
    /// How often each mark was performed.
    performed: BTreeMap<String, u32>,
    written: BTreeSet<String>,
    tally: BTreeMap<String, u64>,
    counts: BTreeMap<&'static str, u32>,
    faults: Vec<String>,
}

impl<'a> Court<'a> {
    fn new(evidence: &'a Evidence, people: &'a People, trouble: &'a Trouble) -> Court<'a> {
        let mut performed = BTreeMap::new();
        for mark in evidence.performed.lines() {
            *performed.entry(mark.to_owned()).or_default() += 1;
        }
        let mut tally: BTreeMap<String, u64> = BTreeMap::new();
        for line in evidence.tally.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let session = line["session"].as_str().unwrap().to_owned();
            *tally.entry(session).or_default() += line["cost"].as_u64().unwrap();
        }
        Court {
            world: &evidence.world,
            people,
            trouble,
            turns: exported(&evidence.store),
            store: &evidence.store,
            performed,
            written: evidence.written.lines().map(str::to_owned).collect(),
            tally,
            counts: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    fn fault(&mut self, what: String) {
        self.faults.push(what);
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn told(&self) -> String {
        let counts: Vec<String> = self
            .counts
            .iter()
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        counts.join(", ")
    }

    fn store_fits(&mut self) {
        for fault in self.store.check() {
            self.fault(format!("store: {fault}"));
        }
        for hold in self.store.holds().unwrap() {
            self.fault(format!("money is still held: {hold:?}"));
        }
    }

    /// Every message of the bot has its reason, and none has two.
    fn messages(&mut self) {
        let mut parts: BTreeMap<u64, u64> = BTreeMap::new();
        let mut shown: BTreeSet<u64> = BTreeSet::new();
        for turn in self.turns.values() {
            shown.extend(turn.request.message.map(|message| message.0));
            for part in &turn.parts {
                match part.sent {
                    Sent::Yes(message) => {
                        if let Some(other) = parts.insert(message.0, turn.id.0) {
                            self.faults.push(format!(
                                "message {message} counts as a part of {other} and of {}",
                                turn.id
                            ));
                        }
                    }
                    Sent::GivenUp => {}
                    Sent::No | Sent::Trying => {
                        self.faults
                            .push(format!("a part of turn {} was never sent", turn.id));
                    }
                }
            }
        }
        let mut seen: BTreeSet<u64> = BTreeSet::new();
        let mut receipts: BTreeMap<String, u32> = BTreeMap::new();
        let mut notices: BTreeMap<String, u32> = BTreeMap::new();
        let world = self.world;
        for message in house::places(world).into_iter().flat_map(house::bots) {
            let id = house::id_of(message);
            let buttons = house::buttons(message);
            let text = message["content"].as_str().unwrap_or("");
            seen.insert(id);
            if house::is_silent(message) {
                match buttons
                    .iter()
                    .find(|button| button.starts_with("1:details:"))
                {
                    Some(button) => *receipts.entry(button.clone()).or_default() += 1,
                    None => self.fault(format!("message {id} still works: {text:?}")),
                }
            } else if parts.contains_key(&id) {
                self.count("parts of answers");
            } else if shown.contains(&id) {
                self.count("shown commands");
            } else if let Some(to) = message["reply_to"].as_str() {
                self.count("notices");
                *notices.entry(to.to_owned()).or_default() += 1;
            } else {
                self.fault(format!("message {id} belongs to nothing: {text:?}"));
            }
        }
        for part in parts
            .keys()
            .filter(|part| !seen.contains(part))
            .copied()
            .collect::<Vec<_>>()
        {
            self.fault(format!("message {part} counts as sent and is not there"));
        }
        for (button, count) in receipts.into_iter().filter(|(_, count)| *count > 1) {
            self.fault(format!("{count} receipts have {button}"));
        }
        for (to, count) in notices.into_iter().filter(|(_, count)| *count > 1) {
            self.fault(format!("{count} notices answer message {to}"));
        }
        let files: Vec<String> = house::places(world)
            .into_iter()
            .flat_map(house::bots)
            .flat_map(|message| {
                message["attachments"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default()
            })
            .filter_map(|file| file["name"].as_str().map(str::to_owned))
            .collect();
        for name in files.iter().collect::<BTreeSet<_>>() {
            let count = files.iter().filter(|other| *other == name).count();
            let mark = name.strip_suffix(".txt").unwrap_or(name);
            if count > 1 + self.tried_again(mark) as usize {
                self.fault(format!("{name} was attached {count} times"));
            }
        }
    }

    /// Every request has one outcome.
    fn requests(&mut self) {
        for request in &self.people.requests {
            let performed = self.performed.get(&request.mark).copied().unwrap_or(0);
            if performed > 1 + self.tried_again(&request.mark) {
                self.fault(format!("{request:?} was performed {performed} times"));
            }
            match request.by {
                By::Stranger if performed > 0 => {
                    self.fault(format!("a stranger was served: {request:?}"))
                }
                By::Stranger => self.count("strangers"),
                By::Empty => self.was_noticed(request),
                By::Command if self.turn_of(request).is_none() => {
                    if self.people.taken.contains(&request.mark) {
                        self.fault(format!("a command that was taken is lost: {request:?}"));
                    }
                }
                By::Mention | By::FollowUp | By::Command => self.has_outcome(request, performed),
            }
        }
    }

    /// Returns how often a request was asked once more.
    fn tried_again(&self, mark: &str) -> u32 {
        let text = format!("echo {mark} ");
        let turns = self.retries().into_iter();
        let those = turns.filter(|turn| turn.request.text.contains(&text));
        u32::try_from(those.count()).unwrap()
    }

    /// Returns the turns that ask once more what an earlier one was asked.
    fn retries(&self) -> Vec<&TurnRecord> {
        let mut asked = BTreeSet::new();
        let again = |turn: &&TurnRecord| {
            let message = turn.request.message;
            message.is_some_and(|message| !asked.insert(message))
        };
        self.turns.values().filter(again).collect()
    }

    /// What was asked once more has an end as well.
    fn retried(&mut self) {
        let retries: Vec<TurnRecord> = self.retries().into_iter().cloned().collect();
        for turn in retries {
            let harmed = self.trouble.harmed.contains(&turn.id.0);
            // Whoever tries another's request again quotes it, and the scripted agent does nothing of a quotation.
            let said = |words: &str| turn.parts.iter().any(|part| part.text.contains(words));
            let ended = said("answer")
                || said("You wrote: “Do once more")
                || turn.stopped_by.is_some()
                || harmed
                || (turn.started_at.is_none() && !turn.parts.is_empty());
            // It may have joined or been merged into another.
            if ended || turn.parts.is_empty() && turn.stage == Stage::Done {
                self.count("tried again");
            } else {
                self.fault(format!("a retry was not answered: {turn:?}"));
            }
        }
    }

    fn was_noticed(&mut self, request: &Request) {
        if self.notices_to(request) == 1 {
            self.count("empty requests refused");
        } else {
            self.fault(format!("nobody was told of {request:?}"));
        }
    }

    fn notices_to(&self, request: &Request) -> usize {
        let message = request.message.unwrap_or(0).to_string();
        house::places(self.world)
            .into_iter()
            .flat_map(house::bots)
            .filter(|reply| reply["reply_to"] == message.as_str())
            .count()
    }

    /// Returns the turn that a request was made into.
    fn turn_of(&self, request: &Request) -> Option<&TurnRecord> {
        match request.message {
            Some(message) => self.turns.get(&message),
            None => {
                let text = format!("!bash echo {} ", request.mark);
                self.turns
                    .values()
                    .find(|turn| turn.request.text.contains(&text))
            }
        }
    }

    fn has_outcome(&mut self, request: &Request, performed: u32) {
        let Some(turn) = self.turn_of(request).cloned() else {
            match self.notices_to(request) {
                0 if request.deleted => self.count("deleted before they were heard"),
                0 => self.fault(format!("a request is lost: {request:?}")),
                _ => self.count("refused"),
            }
            return;
        };
        if turn.stage != Stage::Done {
            self.fault(format!("turn {} is not done: {:?}", turn.id, turn.stage));
        }
        let harmed = self.trouble.harmed.contains(&turn.id.0);
        let answered = turn.parts.iter().any(|part| part.text.contains("answer"));
        if turn.parts.is_empty() {
            match (performed, turn.stopped_by.is_some() || request.deleted) {
                (1.., _) => self.count("joined another"),
                (0, true) => self.count("taken back"),
                (0, false) if self.has_gone_with_another(request, &turn) => {
                    self.count("ended with the one they joined")
                }
                (0, false) => self.fault(format!(
                    "turn {} of {request:?} ended without a word",
                    turn.id
                )),
            }
        } else if answered {
            self.count("answered");
        } else if turn.stopped_by.is_some() {
            self.count("stopped");
        } else if harmed {
            self.count("failed with their agent");
        } else if turn.started_at.is_none() {
            self.count("refused at their turn");
        } else {
            let words: Vec<&str> = turn.parts.iter().map(|part| part.text.as_str()).collect();
            self.fault(format!(
                "turn {} of {request:?} was not answered though nothing harmed it: {words:?}",
                turn.id
            ));
        }
    }

    /// It was merged into or had joined a turn that was then stopped or harmed before it came to it.
    fn has_gone_with_another(&self, request: &Request, turn: &TurnRecord) -> bool {
        let text = format!("echo {} ", request.mark);
        self.turns.values().any(|other| {
            let earlier = other.thread == turn.thread && other.id < turn.id;
            let ended = other.stopped_by.is_some() || self.trouble.harmed.contains(&other.id.0);
            earlier
                && (ended && other.request.author.member == turn.request.author.member
                    || other.request.text.contains(&text))
        })
    }

    /// What an agent has written is attached, once.
    fn files(&mut self) {
        for mark in self.written.clone() {
            let name = format!("{mark}.txt");
            let attached = house::places(self.world)
                .into_iter()
                .flat_map(house::bots)
                .flat_map(|message| message["attachments"].as_array().into_iter().flatten())
                .any(|file| file["name"] == name.as_str());
            if attached {
                self.count("files");
            } else if !self.may_be_missing(&mark) {
                self.fault(format!("{name} was written and is nowhere attached"));
            }
        }
    }

    /// A killed runner leaves an agent that writes on; what it writes afterwards belongs to nobody.
    fn may_be_missing(&self, mark: &str) -> bool {
        let text = format!("echo {mark} ");
        let request = self
            .people
            .requests
            .iter()
            .find(|request| request.mark == mark);
        self.turns.values().any(|turn| {
            let has = turn.request.text.contains(&text);
            has && self.trouble.harmed.contains(&turn.id.0)
        }) || request
            .and_then(|request| self.turn_of(request))
            .is_some_and(|joined| {
                self.turns.values().any(|turn| {
                    turn.thread == joined.thread && self.trouble.harmed.contains(&turn.id.0)
                })
            })
    }

    /// The ledger says what the agents say; killed ones did not come to say it.
    fn books(&mut self) {
        let mut booked: BTreeMap<String, u64> = BTreeMap::new();
        let mut harmed: BTreeSet<String> = BTreeSet::new();
        for turn in self.turns.values() {
            let Some(session) = turn.session.as_ref().map(|session| session.0.clone()) else {
                continue;
            };
            if self.trouble.harmed.contains(&turn.id.0) {
                harmed.insert(session.clone());
            }
            let entry = self.store.entry(turn.id).unwrap();
            *booked.entry(session).or_default() += entry.map_or(0, |entry| entry.cost.0);
        }
        let sessions: BTreeSet<String> = booked.keys().chain(self.tally.keys()).cloned().collect();
        for session in sessions {
            let book = booked.get(&session).copied().unwrap_or(0);
            let tally = self.tally.get(&session).copied().unwrap_or(0);
            if book != tally && !harmed.contains(&session) {
                self.fault(format!(
                    "session {session}: the ledger says {book}, the agent {tally}"
                ));
            }
        }
        let entries = self.store.entries(&EntryFilter::default()).unwrap();
        self.counts
            .insert("ledger entries", u32::try_from(entries.len()).unwrap());
    }

    fn processes(&mut self) {
        let threads = self.turns.values().map(|turn| turn.thread.0).collect();
        for process in house::marked(&threads) {
            self.fault(format!(
                "a process was left: {} {} of {}",
                process.pid, process.command, process.mark
            ));
        }
    }

    /// Never more than one request on its way in one channel.
    fn one_at_a_time(&mut self, requests: &[Value]) {
        let mut last: BTreeMap<String, &Value> = BTreeMap::new();
        let mut sorted: Vec<&Value> = requests.iter().collect();
        sorted.sort_by_key(|request| request["began"].as_str());
        for request in sorted {
            let path = request["path"].as_str().unwrap_or("");
            let Some(channel) = path
                .split("/channels/")
                .nth(1)
                .and_then(|rest| rest.split(['/', '?']).next())
            else {
                continue;
            };
            let ends = |request: &Value| request["time"].as_str().map(str::to_owned);
            if let Some(before) = last.get(channel)
                && request["began"].as_str().map(str::to_owned) < ends(before)
                && !self
                    .trouble
                    .ended_between(&before["began"], &before["time"])
            {
                self.faults.push(format!(
                    "two requests at once in channel {channel}: {} {} and {} {path}",
                    before["method"], before["path"], request["method"]
                ));
            }
            if last
                .get(channel)
                .is_none_or(|before| ends(before) < ends(request))
            {
                last.insert(channel.to_owned(), request);
            }
        }
    }
}

/// Returns all turns of a store, as its export tells them.
fn exported(store: &Store) -> BTreeMap<u64, TurnRecord> {
    let mut text = Vec::new();
    store.export(&mut text).unwrap();
    let lines = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    lines
        .filter_map(|line| {
            let line: Value = serde_json::from_slice(line).unwrap();
            (line["tree"] == "turns")
                .then(|| serde_json::from_value(line["value"].clone()).unwrap())
        })
        .map(|turn: TurnRecord| (turn.id.0, turn))
        .collect()
}

/// Lets the program itself examine its store.
pub(crate) fn examine(house: &House) -> Result<(), String> {
    let done = Command::new(house.directory.join("innkeeper"))
        .args(["store", "check", "--config"])
        .arg(house.config())
        .output()
        .unwrap();
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stdout).into_owned()),
    }
}
