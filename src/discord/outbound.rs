//! What the bot does on Discord. The one implementer of [`Surface`] that people meet.
//!
//! Waits, repetitions and the platform's moods end here: a thread that was archived is opened again, a reply without
//! its target is sent without it, a text that was refused is sent once more without its trimmings.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::Method;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::domain::ids::{ChannelId, GuildId, MemberId, MessageId, RoleId, ThreadId};
use crate::domain::request::Attachment;
use crate::driver::ports::{Nonce, Post, Surface, SurfaceError, Upload};

use super::bodies::{self, Shape};
use super::faults::{code, meaning};
use super::fetch;
use super::names;
use super::places::Places;
use super::rest::{Again, Call, Major, Rest, RestError};
use super::wire;

/// Decorations that may be on their way at once.
const ORNAMENTS: usize = 32;

/// Calls in a channel's queue beyond which decorations of that channel are left out.
const CROWD: usize = 4;

/// The longest that a decoration is worth waiting for.
const ORNAMENT_TIME: Duration = Duration::from_secs(10);

/// How often a forum post is tried that is not there yet, a second apart.
const FORUM_TRIES: u32 = 5;

/// The bot's hands on Discord; clones share everything.
#[derive(Clone, Debug)]
pub struct Outbound {
    rest: Rest,
    places: Arc<Places>,
    ornaments: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl Outbound {
    /// Returns hands that work by `rest` and know the channels that `places` knows.
    pub(super) fn new(rest: Rest, places: Arc<Places>) -> Outbound {
        Outbound {
            rest,
            places,
            ornaments: Arc::new(Semaphore::new(ORNAMENTS)),
            tasks: TaskTracker::new(),
        }
    }

    /// Sends a new message, in the shape that Discord takes.
    async fn create(
        &self,
        channel: ChannelId,
        post: &Post,
        nonce: &Nonce,
    ) -> Result<MessageId, RestError> {
        let mut shape = Shape::Whole;
        let mut reopened = false;
        let mut early = 0;
        loop {
            let error = match self.create_as(channel, post, nonce, shape).await {
                Ok(id) => return Ok(id),
                Err(error) => error,
            };
            match (error.code(), shape) {
                (code::NO_HISTORY | code::UNKNOWN_MESSAGE, Shape::Whole) => {
                    shape = Shape::Unattached;
                }
                (code::INVALID_FORM, Shape::Whole | Shape::Unattached) => {
                    tracing::warn!(%error, "a message was refused; it is sent in plain form");
                    shape = Shape::Plain;
                }
                (code::ARCHIVED, _) if !reopened => {
                    reopened = true;
                    self.reopen(channel).await?;
                }
                // A new forum post takes nothing before its own first message has landed.
                (code::NOT_IN_FORUM, _) if early < FORUM_TRIES => {
                    early += 1;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                _ => return Err(error),
            }
        }
    }

    async fn create_as(
        &self,
        channel: ChannelId,
        post: &Post,
        nonce: &Nonce,
        shape: Shape,
    ) -> Result<MessageId, RestError> {
        let path = format!("channels/{channel}/messages");
        let call = Call::new(
            "create message",
            Method::POST,
            path,
            Major::Channel(channel),
        )
        .json(&bodies::create(channel, post, nonce, shape))
        .files(post.files.clone());
        let made: Value = self.rest.ask(call).await?;
        wire::id(&made["id"])
            .map(MessageId)
            .ok_or(RestError::Away {
                call: "create message",
                why: "the answer names no message".to_owned(),
            })
    }

    /// Brings an archived thread back.
    async fn reopen(&self, thread: ChannelId) -> Result<(), RestError> {
        let path = format!("channels/{thread}");
        let call = Call::new(
            "reopen thread",
            Method::PATCH,
            path,
            Major::Channel(thread),
        );
        self.rest.send(call.json(&bodies::reopen())).await?;
        Ok(())
    }

    async fn thread(
        &self,
        channel: ChannelId,
        message: MessageId,
        name: &str,
    ) -> Result<(), RestError> {
        let path = format!("channels/{channel}/messages/{message}/threads");
        let call = Call::new("open thread", Method::POST, path, Major::Channel(channel))
            .json(&bodies::thread(name));
        match self.rest.send(call).await {
            // It hangs there already: somebody else's doing, or an earlier try whose answer was lost.
            Err(error) if error.code() == code::THREAD_EXISTS => Ok(()),
            other => other.map(drop),
        }
    }

    /// Does something that nobody waits for, unless there is too much to do already.
    fn ornament(&self, name: &'static str, method: Method, channel: ChannelId, path: String) {
        let major = Major::Channel(channel);
        let Ok(permit) = Arc::clone(&self.ornaments).try_acquire_owned() else {
            return;
        };
        if self.rest.waiting(major) >= CROWD {
            return;
        }
        let call = Call::new(name, method, path, major)
            .again(Again::Never)
            .within(ORNAMENT_TIME)
            .ornament();
        let rest = self.rest.clone();
        self.tasks.spawn(async move {
            let _permit = permit;
            if let Err(error) = rest.send(call).await {
                tracing::debug!(%error, "a decoration was left out");
            }
        });
    }

    /// Returns what a refused message means, having learned from it how large files may be.
    fn judge(&self, channel: ChannelId, files: &[Upload], error: RestError) -> SurfaceError {
        let needs = if files.is_empty() {
            self.needs_to_speak(channel)
        } else {
            "Attach Files"
        };
        let meaning = meaning(error, needs);
        let largest = files.iter().map(|file| file.bytes.len() as u64).max();
        if let (SurfaceError::TooLarge, Some(largest)) = (&meaning, largest) {
            self.places.lower_file_limit(channel, largest);
        }
        meaning
    }

    fn needs_to_speak(&self, channel: ChannelId) -> &'static str {
        let place = self.places.find(channel);
        match place.and_then(|place| place.parent) {
            Some(_) => "Send Messages in Threads",
            None => "Send Messages",
        }
    }
}

#[async_trait]
impl Surface for Outbound {
    async fn open_thread(
        &self,
        channel: ChannelId,
        message: MessageId,
        name: &str,
    ) -> Result<ThreadId, SurfaceError> {
        let mut opened = self.thread(channel, message, name).await;
        if let Err(error) = &opened
            && matches!(
                error.code(),
                code::BLOCKED_WORDS | code::BLOCKED_TITLE | code::INVALID_FORM
            )
        {
            opened = self.thread(channel, message, bodies::NEUTRAL_NAME).await;
        }
        opened.map_err(|error| meaning(error, "Create Public Threads"))?;
        Ok(ThreadId(message.0))
    }

    async fn post(
        &self,
        channel: ChannelId,
        post: Post,
        nonce: Nonce,
    ) -> Result<MessageId, SurfaceError> {
        if post.text.trim().is_empty() && post.files.is_empty() {
            let why = "a message with neither text nor files was to be sent";
            return Err(SurfaceError::Refused(why.to_owned()));
        }
        let post = Post {
            files: names::clean(post.files),
            ..post
        };
        let created = self.create(channel, &post, &nonce).await;
        created.map_err(|error| self.judge(channel, &post.files, error))
    }

    async fn edit(
        &self,
        channel: ChannelId,
        message: MessageId,
        post: Post,
    ) -> Result<(), SurfaceError> {
        let path = format!("channels/{channel}/messages/{message}");
        let call = Call::new("edit message", Method::PATCH, path, Major::Channel(channel))
            .json(&bodies::edit(&post));
        let mut edited = self.rest.send(call.clone()).await;
        if edited.as_ref().is_err_and(|error| error.code() == code::ARCHIVED) {
            edited = match self.reopen(channel).await {
                Ok(()) => self.rest.send(call).await,
                Err(error) => Err(error),
            };
        }
        let needs = self.needs_to_speak(channel);
        edited.map(drop).map_err(|error| meaning(error, needs))
    }

    async fn delete(&self, channel: ChannelId, message: MessageId) -> Result<(), SurfaceError> {
        let path = format!("channels/{channel}/messages/{message}");
        let call = Call::new(
            "delete message",
            Method::DELETE,
            path,
            Major::Channel(channel),
        );
        match self.rest.send(call).await {
            Err(error) if error.code() != code::UNKNOWN_MESSAGE => {
                Err(meaning(error, "Manage Messages"))
            }
            _ => Ok(()),
        }
    }

    fn react(&self, channel: ChannelId, message: MessageId, emoji: &'static str) {
        let path = format!("channels/{channel}/messages/{message}/reactions/{emoji}/@me");
        self.ornament("react", Method::PUT, channel, path);
    }

    fn unreact(&self, channel: ChannelId, message: MessageId, emoji: &'static str) {
        let path = format!("channels/{channel}/messages/{message}/reactions/{emoji}/@me");
        self.ornament("react", Method::DELETE, channel, path);
    }

    fn file_limit(&self, guild: GuildId) -> u64 {
        self.places.file_limit(guild)
    }

    async fn fetch(
        &self,
        channel: ChannelId,
        attachment: &Attachment,
        most: u64,
    ) -> Result<Bytes, SurfaceError> {
        fetch::fetch(&self.rest, &self.places, channel, attachment, most).await
    }

    async fn roles(
        &self,
        guild: GuildId,
        member: MemberId,
    ) -> Result<Option<Vec<RoleId>>, SurfaceError> {
        let path = format!("guilds/{guild}/members/{member}");
        let call = Call::new("read member", Method::GET, path, Major::Guild(guild));
        match self.rest.ask::<Value>(call).await {
            Ok(raw) => Ok(Some(wire::ids(&raw["roles"]).map(RoleId).collect())),
            Err(error) if matches!(error.code(), code::UNKNOWN_MEMBER | code::UNKNOWN_USER) => {
                Ok(None)
            }
            Err(error) => Err(meaning(error, "View Channel")),
        }
    }
}
