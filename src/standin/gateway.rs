//! The gateway: logins, sessions, events in order, resuming.
//!
//! A session outlives its connection, so that a client can come back and get what it missed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::ws::{CloseFrame, Message as Frame, WebSocket};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::clock::{Id, instant};
use super::faults::{Blow, Faults, Trick};
use super::shared::{Core, State};
use super::world::{News, World, intent};

/// Milliseconds between heartbeats.
const HEARTBEAT_MS: u64 = 41_250;

/// How many events a session keeps for a client that comes back.
const KEPT_EVENTS: usize = 5_000;

/// Logins that are allowed in 24 hours.
const LOGINS: u32 = 1_000;

/// How many frames a client may send in a minute, and how long one may be (bytes).
const FRAMES_A_MINUTE: usize = 120;
const LONGEST_FRAME: usize = 4_096;

/// What a connection is told to do.
#[derive(Debug)]
enum Order {
    Send(String),
    Close(u16, &'static str),
    Drop,
}

#[derive(Debug)]
struct Session {
    intents: u64,
    sequence: u64,
    log: VecDeque<(u64, String)>,
    held: Vec<String>,
    link: Option<(u64, mpsc::UnboundedSender<Order>)>,
}

/// All sessions and connections.
#[derive(Debug, Default)]
pub(crate) struct Gateway {
    sessions: BTreeMap<String, Session>,
    links: BTreeMap<u64, mpsc::UnboundedSender<Order>>,
    connections: u64,
    /// Logins so far.
    pub(crate) logins: u32,
}

impl Gateway {
    /// Tells every session that may hear it.
    pub(crate) fn tell(&mut self, world: &World, faults: &mut Faults, news: &News) {
        if !news.for_bot {
            return;
        }
        for session in self.sessions.values_mut() {
            if news.intents != 0 && news.intents & session.intents == 0 {
                continue;
            }
            let mut data = news.data.clone();
            if news.name.starts_with("MESSAGE_")
                && session.intents & intent::MESSAGE_CONTENT == 0
                && data["author"].is_object()
            {
                world.censor(&mut data);
            }
            session.dispatch(&news.name, data, faults.on_event(&news.name));
        }
    }

    /// Does something at once to all connections.
    pub(crate) fn strike(&mut self, blow: Blow) {
        for link in self.links.values() {
            let order = match blow {
                Blow::Drop => Order::Drop,
                Blow::Close(code) => Order::Close(code, "as a fault rule asks"),
                Blow::Reconnect => Order::Send(json!({ "op": 7, "d": null }).to_string()),
                Blow::InvalidSession { resumable } => {
                    Order::Send(json!({ "op": 9, "d": resumable }).to_string())
                }
            };
            // A connection that just ended takes no orders any more.
            let _ = link.send(order);
        }
        if blow == (Blow::InvalidSession { resumable: false }) {
            self.forget();
        }
    }

    /// Forgets all sessions: nobody can resume.
    pub(crate) fn forget(&mut self) {
        self.sessions.clear();
    }

    /// Returns how many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.links.len()
    }

    /// Returns how many sessions have somebody who listens.
    pub(crate) fn listeners(&self) -> usize {
        self.sessions
            .values()
            .filter(|session| session.link.is_some())
            .count()
    }

    /// Returns `session_start_limit` as `GET /gateway/bot` tells it.
    pub(crate) fn session_start_limit(&self) -> Value {
        json!({
            "total": LOGINS, "remaining": LOGINS.saturating_sub(self.logins), "reset_after": 86_400_000,
            "max_concurrency": 1,
        })
    }
}

impl Session {
    /// Numbers an event, keeps it and sends it, as a trick wants it.
    fn dispatch(&mut self, name: &str, data: Value, trick: Option<(Trick, u32)>) {
        self.sequence += 1;
        let data = if let Some((Trick::Unparsable, _)) = trick {
            unparsable(data)
        } else {
            data
        };
        let text = json!({ "op": 0, "t": name, "s": self.sequence, "d": data }).to_string();
        self.log.push_back((self.sequence, text.clone()));
        if self.log.len() > KEPT_EVENTS {
            self.log.pop_front();
        }
        match trick {
            Some((Trick::Lose, _)) => {}
            Some((Trick::Duplicate, _)) => {
                self.send(text.clone());
                self.send(text);
            }
            Some((Trick::Shuffle, left)) => {
                self.held.push(text);
                if left == 0 {
                    for text in std::mem::take(&mut self.held).into_iter().rev() {
                        self.send(text);
                    }
                }
            }
            Some((Trick::Unparsable, _)) | None => self.send(text),
        }
    }

    fn send(&self, text: String) {
        if let Some((_, link)) = &self.link {
            // What a dead connection does not take stays in the log.
            let _ = link.send(Order::Send(text));
        }
    }
}

/// Makes an event's data unreadable for a strict client, with its ids left in place.
fn unparsable(mut data: Value) -> Value {
    for key in ["author", "type", "member"] {
        if data.get(key).is_some() {
            data[key] = json!("unreadable");
        }
    }
    data
}

/// One client's connection.
struct Connection {
    core: Arc<Core>,
    number: u64,
    orders: mpsc::UnboundedSender<Order>,
    session: Option<String>,
    frames: VecDeque<Instant>,
}

/// What becomes of a connection after a frame.
type Verdict = Result<(), (u16, &'static str)>;

/// Serves one gateway connection to its end.
pub(crate) async fn serve(core: Arc<Core>, mut socket: WebSocket) {
    let (orders, mut ordered) = mpsc::unbounded_channel();
    let number = core.with(|state| {
        state.gateway.connections += 1;
        let number = state.gateway.connections;
        state.gateway.links.insert(number, orders.clone());
        number
    });
    let hello = json!({ "op": 10, "d": { "heartbeat_interval": HEARTBEAT_MS, "_trace": [] } });
    let mut connection = Connection {
        core,
        number,
        orders,
        session: None,
        frames: VecDeque::new(),
    };
    let _ = connection.orders.send(Order::Send(hello.to_string()));
    let ended_well = loop {
        let end = tokio::select! {
            biased;
            order = ordered.recv() => obey(&mut socket, order).await,
            frame = socket.recv() => connection.receive(frame),
        };
        if let Some(ended_well) = end {
            break ended_well;
        }
    };
    connection.end(ended_well);
}

/// Does what a connection is told; `Some` ends it, and says whether it ended well.
async fn obey(socket: &mut WebSocket, order: Option<Order>) -> Option<bool> {
    match order {
        Some(Order::Send(text)) => {
            let sent = socket.send(Frame::Text(text.into())).await;
            sent.is_err().then_some(false)
        }
        Some(Order::Close(code, reason)) => {
            let reason = reason.into();
            let _ = socket
                .send(Frame::Close(Some(CloseFrame { code, reason })))
                .await;
            Some(false)
        }
        Some(Order::Drop) | None => Some(false),
    }
}

impl Connection {
    /// Takes a frame; `Some` ends the connection, and says whether it ended well.
    fn receive(&mut self, frame: Option<Result<Frame, axum::Error>>) -> Option<bool> {
        match frame {
            Some(Ok(Frame::Text(text))) => self.hear(text.as_str()),
            Some(Ok(Frame::Binary(bytes))) => self.hear(&String::from_utf8_lossy(&bytes)),
            Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => {}
            Some(Ok(Frame::Close(frame))) => {
                return Some(frame.is_some_and(|frame| matches!(frame.code, 1000 | 1001)));
            }
            Some(Err(_)) | None => return Some(false),
        }
        None
    }

    fn hear(&mut self, text: &str) {
        if let Err((code, reason)) = self.take(text) {
            let _ = self.orders.send(Order::Close(code, reason));
        }
    }

    fn take(&mut self, text: &str) -> Verdict {
        if text.len() > LONGEST_FRAME {
            return Err((4002, "payload too long"));
        }
        let now = instant();
        self.frames
            .retain(|sent| now.duration_since(*sent) < Duration::from_secs(60));
        self.frames.push_back(now);
        if self.frames.len() > FRAMES_A_MINUTE {
            return Err((4008, "rate limited"));
        }
        let frame: Value = serde_json::from_str(text).map_err(|_| (4002, "decode error"))?;
        match (frame["op"].as_u64(), self.session.is_some()) {
            (Some(1), _) => self.heartbeat(),
            (Some(2), false) => self.identify(&frame["d"]),
            (Some(2), true) => Err((4005, "already authenticated")),
            (Some(6), false) => self.resume(&frame["d"]),
            (Some(3 | 4 | 8 | 14 | 31), false) => Err((4003, "not authenticated")),
            (Some(8), true) => self.tell_members(&frame["d"]),
            (Some(3 | 4 | 14 | 31), true) => Ok(()),
            _ => Err((4001, "unknown opcode")),
        }
    }

    fn heartbeat(&self) -> Verdict {
        if !self.core.with(|state| state.faults.swallows_heartbeat()) {
            let _ = self
                .orders
                .send(Order::Send(json!({ "op": 11 }).to_string()));
        }
        Ok(())
    }

    fn identify(&mut self, data: &Value) -> Verdict {
        let (number, orders) = (self.number, self.orders.clone());
        let session = self.core.with(|state| {
            state.gateway.logins += 1;
            let intents = check_login(&state.world, data)?;
            let name = format!(
                "{:032x}",
                u128::from(state.world.clock.fresh_id()).rotate_left(37)
            );
            let link = Some((number, orders));
            let mut session = Session {
                intents,
                sequence: 0,
                log: VecDeque::new(),
                held: vec![],
                link,
            };
            greet(state, &mut session, &name);
            state.gateway.sessions.insert(name.clone(), session);
            Ok(name)
        })?;
        self.session = Some(session);
        Ok(())
    }

    fn resume(&mut self, data: &Value) -> Verdict {
        let (number, orders) = (self.number, self.orders.clone());
        let name = data["session_id"].as_str().unwrap_or_default().to_owned();
        let since = data["seq"].as_u64().unwrap_or_default();
        let resumed = self.core.with(|state| {
            if !token_fits(&state.world, data) {
                return Err((4004, "authentication failed"));
            }
            let Some(session) = state.gateway.sessions.get_mut(&name) else {
                return Ok(false);
            };
            if since > session.sequence {
                return Err((4007, "invalid seq"));
            }
            session.link = Some((number, orders));
            let missed = session.log.iter().filter(|(sequence, _)| *sequence > since);
            for text in missed
                .map(|(_, text)| text.clone())
                .collect::<Vec<String>>()
            {
                session.send(text);
            }
            session.dispatch("RESUMED", json!({ "_trace": [] }), None);
            Ok(true)
        })?;
        if resumed {
            self.session = Some(name);
        } else {
            let _ = self
                .orders
                .send(Order::Send(json!({ "op": 9, "d": false }).to_string()));
        }
        Ok(())
    }

    /// Answers a request for a server's members.
    fn tell_members(&self, data: &Value) -> Verdict {
        let Some(name) = &self.session else {
            return Ok(());
        };
        self.core.with(|state| {
            let State { world, gateway, .. } = state;
            let id = data["guild_id"].as_str().and_then(|id| id.parse().ok());
            let guild = id.and_then(|id: Id| world.guilds.get(&id));
            let (Some(guild), Some(session)) = (guild, gateway.sessions.get_mut(name)) else {
                return;
            };
            let members = guild.members.keys();
            let members: Vec<Value> = members
                .filter_map(|user| world.show_member(guild, *user))
                .collect();
            let chunk = json!({
                "guild_id": guild.id.to_string(), "members": members, "chunk_index": 0,
                "chunk_count": 1, "not_found": [], "nonce": data["nonce"],
            });
            session.dispatch("GUILD_MEMBERS_CHUNK", chunk, None);
        });
        Ok(())
    }

    /// Leaves; a client that closed well ends its session as well.
    fn end(&self, ended_well: bool) {
        self.core.with(|state| {
            state.gateway.links.remove(&self.number);
            let Some(name) = &self.session else { return };
            if ended_well {
                state.gateway.sessions.remove(name);
            } else if let Some(session) = state.gateway.sessions.get_mut(name)
                && session
                    .link
                    .as_ref()
                    .is_some_and(|(number, _)| *number == self.number)
            {
                session.link = None;
            }
        });
    }
}

fn token_fits(world: &World, data: &Value) -> bool {
    let token = data["token"].as_str().unwrap_or_default();
    token.strip_prefix("Bot ").unwrap_or(token) == world.bot.token
}

/// Checks a login and returns its intents.
fn check_login(world: &World, data: &Value) -> Result<u64, (u16, &'static str)> {
    if !token_fits(world, data) {
        return Err((4004, "Authentication failed."));
    }
    if data["properties"].is_null() {
        return Err((4002, "Error while decoding payload."));
    }
    let intents = data["intents"]
        .as_u64()
        .ok_or((4013, "Invalid intent(s)."))?;
    if intents & !intent::KNOWN != 0 {
        return Err((4013, "Invalid intent(s)."));
    }
    if intents & intent::PRIVILEGED & !world.bot.privileged != 0 {
        return Err((4014, "Disallowed intent(s)."));
    }
    let shard = |index| data["shard"].get(index).and_then(Value::as_u64);
    if !data["shard"].is_null() && (shard(0).is_none() || shard(0) >= shard(1)) {
        return Err((4010, "Invalid shard."));
    }
    Ok(intents)
}

/// Sends a new session what it starts with: READY, then each server.
fn greet(state: &State, session: &mut Session, name: &str) {
    let world = &state.world;
    let servers = || {
        world
            .guilds
            .values()
            .filter(|guild| guild.members.contains_key(&world.bot.id))
    };
    let unavailable: Vec<Value> = servers()
        .map(|guild| json!({ "id": guild.id.to_string(), "unavailable": true }))
        .collect();
    let application = world.show_application();
    let ready = json!({
        "v": 10, "user": world.show_me(), "guilds": unavailable, "session_id": name, "session_type": "normal",
        "resume_gateway_url": gateway_url(world), "shard": [0, 1], "private_channels": [], "relationships": [],
        "application": { "id": application["id"], "flags": application["flags"] }, "_trace": [],
    });
    session.dispatch("READY", ready, None);
    if session.intents & intent::GUILDS != 0 {
        let all_members = session.intents & intent::GUILD_MEMBERS != 0;
        for guild in servers() {
            session.dispatch(
                "GUILD_CREATE",
                world.show_guild_create(guild, all_members),
                None,
            );
        }
    }
}

/// Returns the gateway's address.
pub(crate) fn gateway_url(world: &World) -> String {
    format!("{}/gateway", world.base_url.replacen("http", "ws", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> (Session, mpsc::UnboundedReceiver<Order>) {
        let (orders, ordered) = mpsc::unbounded_channel();
        let session = Session {
            intents: 0,
            sequence: 0,
            log: VecDeque::new(),
            held: vec![],
            link: Some((1, orders)),
        };
        (session, ordered)
    }

    /// Returns the numbers of the events that went out.
    fn sent(ordered: &mut mpsc::UnboundedReceiver<Order>) -> Vec<u64> {
        let mut numbers = vec![];
        while let Ok(Order::Send(text)) = ordered.try_recv() {
            let frame: Value = serde_json::from_str(&text).unwrap();
            numbers.push(frame["s"].as_u64().unwrap());
        }
        numbers
    }

    #[test]
    fn shuffled_events_come_in_the_opposite_order_and_lost_ones_stay_in_the_log() {
        let (mut session, mut ordered) = session();
        session.dispatch("A", json!({}), Some((Trick::Shuffle, 1)));
        assert_eq!(sent(&mut ordered), Vec::<u64>::new());
        session.dispatch("A", json!({}), Some((Trick::Shuffle, 0)));
        session.dispatch("A", json!({}), Some((Trick::Lose, 0)));
        session.dispatch("A", json!({}), Some((Trick::Duplicate, 0)));
        assert_eq!(sent(&mut ordered), [2, 1, 4, 4]);
        assert_eq!(
            session
                .log
                .iter()
                .map(|(number, _)| *number)
                .collect::<Vec<u64>>(),
            [1, 2, 3, 4]
        );
    }

    #[test]
    fn logins_are_checked_as_the_real_gateway_does() {
        let mut world = World::demo();
        world.bot.privileged = intent::MESSAGE_CONTENT;
        let token = world.bot_token().to_owned();
        let login = |token: &str, intents: Value| json!({ "token": token, "intents": intents, "properties": {} });
        let with_shard = |mut login: Value, shard| {
            login["shard"] = shard;
            login
        };
        for (data, expected) in [
            (login(&token, json!(1 << 15 | 1)), Ok(1 << 15 | 1)),
            (login("x", json!(1)), Err(4004)),
            (login(&token, json!(1 << 18)), Err(4013)),
            (login(&token, Value::Null), Err(4013)),
            (login(&token, json!(1 << 8)), Err(4014)),
            (json!({ "token": token, "intents": 1 }), Err(4002)),
            (with_shard(login(&token, json!(1)), json!([0, 1])), Ok(1)),
            (
                with_shard(login(&token, json!(1)), json!([1, 1])),
                Err(4010),
            ),
            (with_shard(login(&token, json!(1)), json!([0])), Err(4010)),
        ] {
            assert_eq!(
                check_login(&world, &data).map_err(|(code, _)| code),
                expected,
                "{data}"
            );
        }
    }
}
