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
use crate::driver::inbound::InboundMessage;
use crate::driver::ports::{Nonce, Ours, Post, Surface, SurfaceError, Upload};

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
    pub(super) rest: Rest,
    pub(super) places: Arc<Places>,
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
        wire::id(&made["id"]).map(MessageId).ok_or(RestError::Away {
            call: "create message",
            why: "the answer names no message".to_owned(),
        })
    }

    /// Brings an archived thread back.
    async fn reopen(&self, thread: ChannelId) -> Result<(), RestError> {
        let path = format!("channels/{thread}");
        let call = Call::new("reopen thread", Method::PATCH, path, Major::Channel(thread));
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
        if edited
            .as_ref()
            .is_err_and(|error| error.code() == code::ARCHIVED)
        {
            edited = match self.reopen(channel).await {
                Ok(()) => self.rest.send(call).await,
                Err(error) => Err(error),
            };
        }
        let needs = self.needs_to_speak(channel);
        edited.map(drop).map_err(|error| meaning(error, needs))
    }

    async fn ours_after(
        &self,
        channel: ChannelId,
        after: MessageId,
    ) -> Result<Vec<Ours>, SurfaceError> {
        let path = format!("channels/{channel}/messages");
        let call = Call::new("read history", Method::GET, path, Major::Channel(channel));
        let call = call.query("after", after).query("limit", 100);
        let page: Vec<Value> = self
            .rest
            .ask(call)
            .await
            .map_err(|error| meaning(error, "Read Message History"))?;
        let me = self.places.me();
        let own = page
            .iter()
            .filter(|raw| wire::id(&raw["author"]["id"]) == Some(me));
        let mut ours: Vec<Ours> = own.filter_map(as_ours).collect();
        ours.sort_by_key(|message| message.id);
        Ok(ours)
    }

    async fn missed(&self, after: MessageId) -> Vec<InboundMessage> {
        self.read_missed(after).await
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

/// Messages of this flag made no sound (resources/message, "Message Flags").
const SUPPRESS_NOTIFICATIONS: u64 = 1 << 12;

/// Reads one of our messages, as far as it tells which one it is.
fn as_ours(raw: &Value) -> Option<Ours> {
    let rows = raw["components"].as_array().into_iter().flatten();
    let buttons = rows.flat_map(|row| row["components"].as_array().into_iter().flatten());
    Some(Ours {
        id: MessageId(wire::id(&raw["id"])?),
        reply_to: wire::id(&raw["message_reference"]["message_id"]).map(MessageId),
        text: raw["content"].as_str().unwrap_or_default().to_owned(),
        silent: raw["flags"].as_u64().unwrap_or(0) & SUPPRESS_NOTIFICATIONS != 0,
        buttons: buttons
            .filter_map(|button| button["custom_id"].as_str().map(str::to_owned))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Fake, Said, Seen, said};
    use super::*;

    use std::collections::VecDeque;
    use std::sync::Mutex;

    use secrecy::SecretString;
    use serde_json::json;

    use crate::domain::ids::{AttachmentId, TurnId};

    /// Returns hands on a server that gives these answers in turn, and then 200.
    async fn hands(answers: Vec<Said>) -> (Fake, Outbound) {
        let answers = Mutex::new(VecDeque::from(answers));
        let next = move |_: &Seen| answers.lock().unwrap().pop_front();
        let fake =
            Fake::start(move |seen| next(seen).unwrap_or_else(|| said(200, json!({"id": "77"}))))
                .await;
        let rest = Rest::new(&fake.url, &SecretString::from("a.b.c")).unwrap();
        (fake, Outbound::new(rest, Arc::default()))
    }

    fn refused(status: u16, code: u32) -> Said {
        said(status, json!({"code": code, "message": "no"}))
    }

    fn lines(fake: &Fake) -> Vec<String> {
        fake.seen().iter().map(Seen::line).collect()
    }

    const CHANNEL: ChannelId = ChannelId(5);

    fn post() -> Post {
        Post {
            text: "hello".to_owned(),
            reply_to: Some(MessageId(8)),
            ..Post::default()
        }
    }

    fn nonce() -> Nonce {
        Nonce::of(TurnId(3), "a1")
    }

    fn file(name: &str, size: usize) -> Upload {
        Upload {
            name: name.to_owned(),
            bytes: Bytes::from(vec![0; size]),
        }
    }

    #[tokio::test]
    async fn an_archived_thread_is_opened_again_once() {
        let (fake, hands) = hands(vec![refused(400, 50_083)]).await;
        let posted = hands.post(CHANNEL, post(), nonce()).await;
        assert_eq!(posted, Ok(MessageId(77)));
        let message = "POST channels/5/messages";
        assert_eq!(lines(&fake), [message, "PATCH channels/5", message]);
        assert_eq!(fake.seen()[1].body, json!({"archived": false}));
    }

    #[tokio::test]
    async fn a_locked_thread_is_left_alone() {
        let (fake, hands) = hands(vec![refused(400, 50_083), refused(403, 160_005)]).await;
        let posted = hands.post(CHANNEL, post(), nonce()).await;
        assert_eq!(posted, Err(SurfaceError::Locked));
        assert_eq!(fake.seen().len(), 2);
    }

    #[tokio::test]
    async fn an_edit_opens_an_archived_thread_again_too() {
        let (fake, hands) = hands(vec![refused(400, 50_083)]).await;
        assert_eq!(hands.edit(CHANNEL, MessageId(9), post()).await, Ok(()));
        let message = "PATCH channels/5/messages/9";
        assert_eq!(lines(&fake), [message, "PATCH channels/5", message]);
    }

    #[tokio::test]
    async fn a_refused_message_is_sent_with_less() {
        let (fake, hands) = hands(vec![refused(403, 160_002), refused(400, 50_035)]).await;
        let post = Post {
            buttons: vec![crate::driver::ports::Button::Stop(TurnId(3))],
            ..post()
        };
        assert_eq!(hands.post(CHANNEL, post, nonce()).await, Ok(MessageId(77)));
        let shown: Vec<[bool; 2]> = fake
            .seen()
            .iter()
            .map(|seen| {
                ["message_reference", "components"].map(|key| seen.body[key] != Value::Null)
            })
            .collect();
        assert_eq!(shown, [[true, true], [false, true], [false, false]]);
    }

    #[tokio::test]
    async fn a_message_that_stays_refused_is_given_up() {
        let answers = vec![refused(400, 50_035), refused(400, 50_035)];
        let (fake, hands) = hands(answers).await;
        let posted = hands.post(CHANNEL, post(), nonce()).await;
        assert!(matches!(posted, Err(SurfaceError::Refused(_))));
        assert_eq!(fake.seen().len(), 2);
    }

    #[tokio::test]
    async fn a_lost_answer_makes_no_second_message() {
        let (fake, hands) = hands(vec![said(502, json!(null))]).await;
        assert!(hands.post(CHANNEL, post(), nonce()).await.is_ok());
        let nonces: Vec<Value> = fake
            .seen()
            .iter()
            .map(|seen| seen.body["nonce"].clone())
            .collect();
        assert_eq!(nonces, ["3a1", "3a1"]);
    }

    #[tokio::test]
    async fn nothing_blank_is_ever_sent() {
        let (fake, hands) = hands(Vec::new()).await;
        let blank = Post {
            text: " \n".to_owned(),
            ..Post::default()
        };
        let posted = hands.post(CHANNEL, blank, nonce()).await;
        assert!(matches!(posted, Err(SurfaceError::Refused(_))));
        assert!(fake.seen().is_empty());
    }

    #[tokio::test]
    async fn a_refused_file_lowers_the_limit_of_its_server() {
        let (fake, hands) = hands(vec![refused(413, 40_005)]).await;
        let channel = json!({"id": "5", "type": 0, "guild_id": "1"});
        hands.places.learn_channel(&channel, None);
        let post = Post {
            files: vec![file("a.bin", 2000), file("a.bin", 10)],
            ..post()
        };
        let posted = hands.post(CHANNEL, post, nonce()).await;
        assert_eq!(posted, Err(SurfaceError::TooLarge));
        assert_eq!(hands.file_limit(GuildId(1)), 1999);
        let listed = json!([{"id": "0", "filename": "a.bin"}, {"id": "1", "filename": "a-2.bin"}]);
        assert_eq!(fake.seen()[0].body["attachments"], listed);
    }

    #[tokio::test]
    async fn a_thread_that_hangs_there_already_is_taken() {
        let (fake, hands) = hands(vec![refused(400, 160_004)]).await;
        let opened = hands.open_thread(CHANNEL, MessageId(8), "plot it").await;
        assert_eq!(opened, Ok(ThreadId(8)));
        assert_eq!(lines(&fake), ["POST channels/5/messages/8/threads"]);
    }

    #[tokio::test]
    async fn a_filtered_title_gives_way_to_a_neutral_one() {
        let (fake, hands) = hands(vec![refused(400, 200_001)]).await;
        let opened = hands.open_thread(CHANNEL, MessageId(8), "bad words").await;
        assert_eq!(opened, Ok(ThreadId(8)));
        assert_eq!(fake.seen()[1].body["name"], "Chat");
    }

    #[tokio::test]
    async fn a_missing_permission_is_named() {
        let (_fake, hands) = hands(vec![refused(403, 50_013), refused(403, 50_013)]).await;
        let opened = hands.open_thread(CHANNEL, MessageId(8), "x").await;
        let forbidden = |what: &str| SurfaceError::Forbidden(what.to_owned());
        assert_eq!(opened, Err(forbidden("Create Public Threads")));
        let posted = hands.post(CHANNEL, post(), nonce()).await;
        assert_eq!(posted, Err(forbidden("Send Messages")));
    }

    #[tokio::test]
    async fn deleting_what_is_gone_is_no_error() {
        let (_fake, hands) = hands(vec![refused(404, 10_008), refused(404, 10_003)]).await;
        assert_eq!(hands.delete(CHANNEL, MessageId(8)).await, Ok(()));
        let gone = hands.delete(CHANNEL, MessageId(8)).await;
        assert_eq!(gone, Err(SurfaceError::ChannelGone));
    }

    #[tokio::test]
    async fn somebody_who_left_has_no_roles() {
        let member = said(200, json!({"roles": ["3", "4"]}));
        let (fake, hands) = hands(vec![member, refused(404, 10_007)]).await;
        let roles = || hands.roles(GuildId(1), MemberId(7));
        assert_eq!(roles().await, Ok(Some(vec![RoleId(3), RoleId(4)])));
        assert_eq!(roles().await, Ok(None));
        assert_eq!(fake.seen()[0].line(), "GET guilds/1/members/7");
    }

    #[tokio::test]
    async fn reactions_are_put_and_taken_away_in_their_order() {
        let (fake, hands) = hands(Vec::new()).await;
        hands.react(CHANNEL, MessageId(8), "⏳");
        hands.unreact(CHANNEL, MessageId(8), "⏳");
        let path = "channels/5/messages/8/reactions/%E2%8F%B3/@me";
        fake.sees(&format!("DELETE {path}")).await;
        assert_eq!(lines(&fake)[0], format!("PUT {path}"));
    }

    #[tokio::test]
    async fn decorations_are_left_out_where_work_waits() {
        let (fake, hands) = hands(Vec::new()).await;
        for _ in 0..200 {
            hands.react(CHANNEL, MessageId(8), "⏳");
        }
        hands.tasks.close();
        hands.tasks.wait().await;
        assert!((1..=ORNAMENTS).contains(&fake.seen().len()));
    }

    fn attachment(url: &Url, path: &str) -> Attachment {
        Attachment {
            id: AttachmentId(30),
            message: Some(MessageId(8)),
            name: "a.csv".to_owned(),
            size: 3,
            url: url.join(path).unwrap().to_string(),
        }
    }

    use super::super::Url;

    #[tokio::test]
    async fn a_file_is_fetched_within_its_bound_and_without_the_token() {
        let (fake, hands) = hands(vec![said(200, json!([1, 2])), said(200, json!([1, 2]))]).await;
        let file = attachment(&fake.url, "/files/a.csv");
        let fetched = hands.fetch(CHANNEL, &file, 5).await;
        assert_eq!(fetched, Ok(Bytes::from_static(b"[1,2]")));
        let fetched = hands.fetch(CHANNEL, &file, 4).await;
        assert_eq!(fetched, Err(SurfaceError::TooLarge));
        assert!(!fake.seen()[0].headers.contains_key("authorization"));
    }

    #[tokio::test]
    async fn an_expired_address_is_asked_for_anew_also_above_the_thread() {
        let place = Mutex::new(None);
        let place = Arc::new(place);
        let shared = Arc::clone(&place);
        let fake = Fake::start(move |seen: &Seen| match seen.path.as_str() {
            "/files/old" => said(403, json!({})),
            "/files/new" => said(200, json!(7)),
            "channels/2/messages/8" => {
                let base: Url = shared.lock().unwrap().clone().unwrap();
                let url = base.join("/files/new").unwrap().to_string();
                said(
                    200,
                    json!({"id": "8", "attachments": [{"id": "30", "url": url}]}),
                )
            }
            _ => refused(404, 10_008),
        })
        .await;
        *place.lock().unwrap() = Some(fake.url.clone());
        let rest = Rest::new(&fake.url, &SecretString::from("a.b.c")).unwrap();
        let hands = Outbound::new(rest, Arc::default());
        let thread = json!({"id": "5", "type": 11, "guild_id": "1", "parent_id": "2"});
        hands.places.learn_channel(&thread, None);
        let file = attachment(&fake.url, "/files/old");
        assert_eq!(
            hands.fetch(CHANNEL, &file, 9).await,
            Ok(Bytes::from_static(b"7"))
        );
    }

    #[tokio::test]
    async fn a_redirect_is_not_followed_and_another_host_not_asked() {
        let elsewhere = Said {
            headers: vec![("location", "http://127.0.0.1:1/".to_owned())],
            ..said(302, json!({}))
        };
        let (fake, hands) = hands(vec![elsewhere]).await;
        let other = Url::parse("http://127.0.0.1:1/").unwrap();
        for file in [attachment(&fake.url, "/files/a"), attachment(&other, "/a")] {
            let fetched = hands.fetch(CHANNEL, &file, 9).await;
            assert!(
                matches!(fetched, Err(SurfaceError::Refused(_))),
                "{fetched:?}"
            );
        }
        assert_eq!(fake.seen().len(), 1);
    }
}
