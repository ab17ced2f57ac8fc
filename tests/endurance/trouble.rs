//! What goes wrong: kills of bot, sandbox server and agents, and a network that misbehaves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};

use super::house::{self, Backend, House};
use super::people::People;

#[derive(Default)]
pub(crate) struct Trouble {
    kills: BTreeMap<&'static str, u32>,
    network: BTreeMap<&'static str, u32>,
    /// Turns of which a process was killed: their agents could not finish.
    pub(crate) harmed: BTreeSet<u64>,
    /// When a bot ended whose requests may still have been on their way.
    pub(crate) ends: Vec<SystemTime>,
    faults: Vec<String>,
}

impl Trouble {
    /// Kills something, and brings it back.
    pub(crate) async fn kill(
        &mut self,
        house: &mut House,
        people: &mut People,
        random: &mut StdRng,
    ) {
        let what = match (random.random_range(0..100), house.backend) {
            (0..45, _) => "bot",
            (45..65, Backend::OpenTerminal) => "server",
            (65..75, Backend::OpenTerminal) => "both",
            (45..75, Backend::Local) => "bot",
            (75..87, _) => "agent",
            _ => "bot, asked",
        };
        let what = match what {
            "agent" if !self.kill_agent(house, random).await => "bot",
            what => what,
        };
        *self.kills.entry(what).or_default() += 1;
        if what == "agent" {
            return;
        }
        if let Err(fault) = house.bot_is_well() {
            self.faults.push(fault);
        }
        if what == "bot, asked" {
            if random.random_bool(0.2) {
                // Not given the time to close.
                let closing = house.stop_bot();
                let patience = Duration::from_millis(random.random_range(0..300));
                let _ = tokio::time::timeout(patience, closing).await;
            } else if let Err(fault) = house.stop_bot().await {
                self.faults.push(fault);
            }
        }
        let in_doubt = what == "bot" && random.random_bool(0.15);
        if in_doubt {
            // Whatever it says arrives, and it never hears of it; then Discord forgets the nonces.
            let lost = json!({"on": "POST /channels/*/messages", "lose_reply": true});
            house.misbehave(lost).await;
            people.act(house, random).await;
            let pause = Duration::from_millis(random.random_range(500..3000));
            tokio::time::sleep(pause).await;
        }
        if matches!(what, "server" | "both") {
            house.kill_server();
        }
        if what != "server" {
            house.kill_bot();
            self.ends.push(SystemTime::now());
        }
        if random.random_bool(0.5) {
            people.act(house, random).await;
        }
        if in_doubt {
            house.behave().await;
        }
        if in_doubt || random.random_bool(0.15) {
            // Discord forgets nonces after three minutes.
            house.misbehave(json!({"advance_seconds": 200})).await;
        }
        let pause = Duration::from_millis(random.random_range(0..1000));
        tokio::time::sleep(pause).await;
        house.start_server().await;
        if what != "server" {
            house.start_bot();
        }
    }

    /// Kills one process of a run. Returns whether there was one.
    async fn kill_agent(&mut self, house: &House, random: &mut StdRng) -> bool {
        let world = house.world().await;
        let threads = house::places(&world)
            .into_iter()
            .map(house::id_of)
            .collect();
        let running = house::marked(&threads);
        let Some(victim) = running.choose(random) else {
            return false;
        };
        self.harmed.insert(victim.turn());
        kill(Pid::from_raw(victim.pid), Signal::SIGKILL).is_ok()
    }

    /// Lets Discord misbehave for a while.
    pub(crate) async fn of_network(&mut self, house: &House, random: &mut StdRng) {
        let times = random.random_range(1..6);
        let any = "* /channels/**";
        let (name, rules) = match random.random_range(0..12) {
            0 => (
                "429",
                json!({"on": any, "status": 429, "retry_after": 0.4, "times": times}),
            ),
            1 => (
                "502",
                json!({"on": any, "status": 502, "text": "<html>", "times": times}),
            ),
            2 => (
                "half",
                json!({"on": any, "status": 503, "every": 2, "times": times * 4}),
            ),
            3 => (
                "lost reply",
                json!({"on": "POST /channels/*/messages", "lose_reply": true, "times": times}),
            ),
            4 => (
                "hang up",
                json!({"on": any, "hang_up": true, "times": times}),
            ),
            5 => ("delay", json!({"on": any, "delay_ms": 700, "times": times})),
            6 => ("drop", json!({"gateway": "drop"})),
            7 => ("reconnect", json!({"gateway": "reconnect"})),
            8 => (
                "new session",
                json!([{"gateway": "forget"}, {"gateway": "drop"}]),
            ),
            9 => (
                "duplicate",
                json!({"gateway": "duplicate", "event": "MESSAGE_CREATE", "times": times}),
            ),
            10 => ("shuffle", json!({"gateway": "shuffle", "times": 2})),
            _ => ("refuse", json!({"gateway": "refuse", "seconds": 2})),
        };
        *self.network.entry(name).or_default() += 1;
        house.misbehave(rules).await;
    }

    /// Ends all trouble: everything runs.
    pub(crate) async fn calm(&mut self, house: &mut House) -> Vec<String> {
        house.behave().await;
        if let Err(fault) = house.bot_is_well() {
            self.faults.push(fault);
            house.start_bot();
        }
        std::mem::take(&mut self.faults)
    }

    pub(crate) fn kills_told(&self) -> String {
        told(&self.kills)
    }

    pub(crate) fn network_told(&self) -> String {
        told(&self.network)
    }

    pub(crate) fn network_faults(&self) -> u32 {
        self.network.values().sum()
    }

    /// Returns whether a bot ended between two moments of the stand-in's record.
    pub(crate) fn ended_between(&self, from: &Value, to: &Value) -> bool {
        let (Some(from), Some(to)) = (moment(from), moment(to)) else {
            return false;
        };
        self.ends.iter().any(|end| from <= *end && *end <= to)
    }
}

fn moment(text: &Value) -> Option<SystemTime> {
    let moment: jiff::Timestamp = text.as_str()?.parse().ok()?;
    Some(moment.into())
}

fn told(counts: &BTreeMap<&'static str, u32>) -> String {
    let counts: Vec<String> = counts
        .iter()
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    counts.join(", ")
}
