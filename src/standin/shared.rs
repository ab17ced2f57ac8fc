//! Everything that the stand-in's parts share, under one lock, and how they hear of changes.

use std::sync::{Mutex, PoisonError};

use serde_json::json;
use tokio::sync::{broadcast, watch};

use super::faults::Faults;
use super::gateway::Gateway;
use super::limits::Limits;
use super::world::World;

/// What changes: the world and the state of the parts around it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) world: World,
    pub(crate) limits: Limits,
    pub(crate) faults: Faults,
    pub(crate) gateway: Gateway,
    /// The REST requests so far, each as a line of JSON.
    pub(crate) record: Vec<String>,
}

/// One piece of news for `GET /standin/events`: the event's name and its data as JSON.
pub(crate) type Notice = (&'static str, String);

/// The shared state and the ways to hear of its changes.
#[derive(Debug)]
pub(crate) struct Core {
    state: Mutex<State>,
    notices: broadcast::Sender<Notice>,
    changes: watch::Sender<u64>,
}

impl Core {
    pub(crate) fn new(world: World) -> Core {
        let state = State {
            world,
            limits: Limits::default(),
            faults: Faults::default(),
            gateway: Gateway::default(),
            record: Vec::new(),
        };
        Core {
            state: Mutex::new(state),
            notices: broadcast::channel(4096).0,
            changes: watch::channel(0).0,
        }
    }

    /// Does something to the state, then tells everybody what came of it.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        // A panic of another holder leaves nothing half done that matters here: go on with the
        // state as it is.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = act(&mut state);
        let State {
            world,
            faults,
            gateway,
            ..
        } = &mut *state;
        for news in std::mem::take(&mut world.outbox) {
            gateway.tell(world, faults, &news);
            let notice = json!({ "name": news.name, "data": news.data });
            // Nobody listening is no fault.
            let _ = self.notices.send(("news", notice.to_string()));
        }
        drop(state);
        self.changes.send_modify(|count| *count += 1);
        outcome
    }

    /// Looks at the state without changing what anybody must hear of.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps a finished request and tells the listeners.
    pub(crate) fn note_request(&self, line: String) {
        let _ = self.notices.send(("request", line.clone()));
        self.with(|state| state.record.push(line));
    }

    /// Hears every notice from now on.
    pub(crate) fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }

    /// Hears that something changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
