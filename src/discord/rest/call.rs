//! One call to Discord, before it is made.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use serde::Serialize;

use crate::domain::ids::{ChannelId, GuildId};
use crate::driver::ports::Upload;

/// The longest that a call may take, waits and retries included.
const DEADLINE: Duration = Duration::from_secs(60);

/// The least speed of an upload that is waited for, in bytes a second.
const UPLOAD_SPEED: u64 = 100 * 1024;

/// Whose queue a call stands in: Discord's "major parameter" (topics/rate-limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Major {
    /// A channel or thread.
    Channel(ChannelId),
    /// A server.
    Guild(GuildId),
    /// The bot itself.
    Account,
    /// An interaction: not counted by Discord's limit for the whole bot, not signed with the bot's token, and never
    /// behind anything else, since it has to be answered within three seconds.
    Interaction,
}

/// When a call may be made again after a fault that leaves open whether it had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Making it twice is the same as making it once: idempotent, or protected by a nonce.
    Safe,
    /// Once more, at once, and only if the connection failed: callbacks of interactions, which meet connections that
    /// the server has just closed. A second effect is excluded, since Discord takes one callback for an interaction.
    Once,
    /// Never.
    Never,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    pub(super) name: &'static str,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) major: Major,
    pub(super) again: Again,
    pub(super) json: Option<Bytes>,
    pub(super) files: Vec<Upload>,
    pub(super) deadline: Duration,
    pub(super) ornament: bool,
}

impl Call {
    /// Returns a call without body that may be made again. `name` stands for it in errors and is the key of its rate
    /// limit; `path` is what follows `/api/v10/`, its parts not yet escaped.
    pub fn new(name: &'static str, method: Method, path: String, major: Major) -> Call {
        Call {
            name,
            method,
            path,
            query: Vec::new(),
            major,
            again: Again::Safe,
            json: None,
            files: Vec::new(),
            deadline: DEADLINE,
            ornament: false,
        }
    }

    /// Adds one parameter of the query.
    pub fn query(mut self, name: &'static str, value: impl ToString) -> Call {
        self.query.push((name, value.to_string()));
        self
    }

    /// Sets the body. What cannot be written as JSON (no type of ours) is sent as `null`, which Discord refuses.
    pub fn json(mut self, body: &impl Serialize) -> Call {
        let bytes = serde_json::to_vec(body).unwrap_or_else(|_| b"null".to_vec());
        self.json = Some(bytes.into());
        self
    }

    /// Adds files, which go with the body as one form; the deadline grows with their size.
    pub fn files(mut self, files: Vec<Upload>) -> Call {
        self.files = files;
        self.deadline += self.upload_time();
        self
    }

    /// Sets when it may be made again.
    pub fn again(mut self, again: Again) -> Call {
        self.again = again;
        self
    }

    /// Sets the longest that it may take, waits and retries included.
    pub fn within(mut self, deadline: Duration) -> Call {
        self.deadline = deadline;
        self
    }

    /// Marks it as decoration, which is left out when Discord has refused too much lately.
    pub fn ornament(mut self) -> Call {
        self.ornament = true;
        self
    }

    /// Returns the bytes of its files.
    pub(super) fn upload_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes.len() as u64).sum()
    }

    /// Returns the time that its files are given on the wire.
    pub(super) fn upload_time(&self) -> Duration {
        Duration::from_secs(self.upload_bytes() / UPLOAD_SPEED)
    }
}
