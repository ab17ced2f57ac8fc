//! The one message that moves while a turn runs.
//!
//! A task of its own owns it, so that nothing ever waits for Discord to show progress. The newest state replaces the one
//! that waits, edits are paced, and after [`LiveMessage::close`] no edit is on its way any more: progress can never land
//! after the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::domain::ids::{ChannelId, MessageId, TurnId};

use super::ports::{Nonce, Ports, Post, SurfaceError};
use super::resume;

/// The shortest time between two edits of one message. Spacing them beats bursts: an event waits half of it on average
/// (simulated against five edits in five seconds).
const PACE: Duration = Duration::from_secs(1);

/// The longest pace after failures.
const SLOWEST: Duration = Duration::from_secs(10);

/// Edits a second that all live messages together may make; the rest of the bot's 30 requests a second is for answers.
const EDITS_A_SECOND: usize = 15;

/// Discord lets a message older than an hour be edited only a few times (30046): it is replaced before.
const OLDEST: Duration = Duration::from_secs(55 * 60);

/// How many live messages there are now: more of them make each one slower.
#[derive(Clone, Debug, Default)]
pub struct Crowd(Arc<AtomicUsize>);

impl Crowd {
    fn pace(&self) -> Duration {
        let shared = Duration::from_secs(1)
            * u32::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        PACE.max(shared / EDITS_A_SECOND as u32)
    }
}

/// What the live message reports to its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It is this message now: to be stored.
    Made(MessageId),
    /// The place it stood in is gone.
    PlaceGone,
}

/// Handle of the live message of one turn.
#[derive(Debug)]
pub struct LiveMessage {
    newest: watch::Sender<Option<Post>>,
    news: mpsc::Receiver<News>,
    /// Ends all editing when it goes: whoever comes after edits the same message.
    closing: DropGuard,
    task: JoinHandle<Last>,
}

/// Where a live message stands, and what is known of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Last {
    /// The message, as far as it is known.
    pub message: Option<MessageId>,
    /// Whether one may have been made without our knowing: an earlier process ended, or an answer was lost.
    pub in_doubt: bool,
}

/// What a live message belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The channel or thread.
    pub place: ChannelId,
    /// The turn.
    pub turn: TurnId,
    /// Everything about the turn stands after this message.
    pub after: MessageId,
}

/// What is known of a message whose task panicked.
const UNKNOWN: Last = Last {
    message: None,
    in_doubt: true,
};

impl LiveMessage {
    /// Starts the task. `existing`: what is known of a message that was made before.
    pub fn start(ports: Ports, crowd: Crowd, subject: Subject, existing: Last) -> LiveMessage {
        let (newest, states) = watch::channel(None);
        let (tell, news) = mpsc::channel(4);
        let closing = CancellationToken::new();
        let keeper = Keeper {
            ports,
            subject,
            last: existing,
            made: 0,
            shown: None,
            pace: PACE,
            crowd,
            tell,
        };
        let task = tokio::spawn(keeper.keep(states, closing.clone()));
        LiveMessage {
            newest,
            news,
            closing: closing.drop_guard(),
            task,
        }
    }

    /// Shows this as soon as the pace allows, unless something newer comes first.
    pub fn show(&self, post: Post) {
        self.newest.send_if_modified(|waiting| {
            let differs = waiting.as_ref() != Some(&post);
            if differs {
                *waiting = Some(post);
            }
            differs
        });
    }

    /// Waits for news. Never resolves when there will be none.
    pub async fn news(&mut self) -> News {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// Shows what waits, then ends all editing; while Discord is away, for as long as this is waited for.
    pub async fn close_after_last(self) -> Last {
        let _closing = self.closing;
        drop(self.newest);
        self.task.await.unwrap_or(UNKNOWN)
    }

    /// Ends all editing and returns the message, if there is one. A request on its way is waited for.
    pub async fn close(self) -> Last {
        drop(self.closing);
        drop(self.newest);
        self.task.await.unwrap_or(UNKNOWN)
    }
}

struct Keeper {
    ports: Ports,
    subject: Subject,
    last: Last,
    made: u32,
    shown: Option<Post>,
    pace: Duration,
    crowd: Crowd,
    tell: mpsc::Sender<News>,
}

/// Whether there is any use in showing more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Onward {
    Yes,
    /// What could not be shown is to be tried again, or what is newer by then.
    Again,
    No,
}

impl Keeper {
    async fn keep(
        mut self,
        mut states: watch::Receiver<Option<Post>>,
        closing: CancellationToken,
    ) -> Last {
        self.crowd.0.fetch_add(1, Ordering::Relaxed);
        let mut earliest = Instant::now();
        let mut onward = Onward::Yes;
        while onward != Onward::No {
            let again = onward == Onward::Again;
            let anew = async {
                match again {
                    true => Ok(()),
                    false => states.changed().await,
                }
            };
            tokio::select! {
                biased;
                () = closing.cancelled() => break,
                changed = anew => if changed.is_err() { break },
            }
            tokio::select! {
                biased;
                () = closing.cancelled() => break,
                () = tokio::time::sleep_until(earliest) => {}
            }
            let Some(post) = states.borrow_and_update().clone() else {
                continue;
            };
            if self.shown.as_ref() == Some(&post) {
                onward = Onward::Yes;
                continue;
            }
            onward = self.show(post).await;
            earliest = Instant::now() + self.pace.max(self.crowd.pace());
        }
        self.crowd.0.fetch_sub(1, Ordering::Relaxed);
        self.last
    }

    async fn show(&mut self, post: Post) -> Onward {
        let result = self.bring(post.clone()).await;
        match result {
            Ok(()) => {
                self.shown = Some(post);
                self.pace = PACE;
                Onward::Yes
            }
            Err(SurfaceError::MessageGone) if self.made < 2 => {
                // Somebody deleted it: one new one, and not a third.
                self.last.message = None;
                match self.make(post.clone()).await {
                    Ok(()) => {
                        self.shown = Some(post);
                        Onward::Yes
                    }
                    Err(_) => Onward::Again,
                }
            }
            Err(SurfaceError::ChannelGone) => {
                let _ = self.tell.send(News::PlaceGone).await;
                Onward::No
            }
            Err(SurfaceError::Away(_)) => {
                self.pace = (self.pace * 2).min(SLOWEST);
                Onward::Again
            }
            Err(SurfaceError::Forbidden(right)) => {
                if self.pace < SLOWEST {
                    tracing::warn!(turn = %self.subject.turn, right, "the live message waits for a permission");
                }
                self.pace = SLOWEST;
                Onward::Yes
            }
            Err(error) => {
                tracing::warn!(turn = %self.subject.turn, %error, "the live message stops");
                Onward::No
            }
        }
    }

    async fn bring(&mut self, post: Post) -> Result<(), SurfaceError> {
        if self.last.in_doubt {
            self.find().await?;
        }
        match self.last.message {
            Some(message) if self.is_fresh(message) => {
                self.ports
                    .surface
                    .edit(self.subject.place, message, post)
                    .await
            }
            Some(old) => self.replace(old, post).await,
            None => self.make(post).await,
        }
    }

    /// Looks whether the message is there already: the platform forgets within minutes what it took.
    async fn find(&mut self) -> Result<(), SurfaceError> {
        let Subject { place, turn, after } = self.subject;
        let surface = self.ports.surface.as_ref();
        if let Some(message) = resume::live_message(surface, place, turn, after).await? {
            self.note(message).await;
        }
        self.last.in_doubt = false;
        Ok(())
    }

    async fn note(&mut self, message: MessageId) {
        self.last.message = Some(message);
        let _ = self.tell.send(News::Made(message)).await;
    }

    fn is_fresh(&self, message: MessageId) -> bool {
        self.ports.clock.now().since(message.made_at()) < OLDEST
    }

    async fn make(&mut self, post: Post) -> Result<(), SurfaceError> {
        let nonce = Nonce::of(self.subject.turn, &format!("l{}", self.made));
        let surface = &self.ports.surface;
        let message = match surface.post(self.subject.place, post, nonce).await {
            Ok(message) => message,
            Err(error) => {
                // It may have been taken, and its answer lost.
                self.last.in_doubt = matches!(error, SurfaceError::Away(_));
                return Err(error);
            }
        };
        self.made += 1;
        self.note(message).await;
        Ok(())
    }

    async fn replace(&mut self, old: MessageId, post: Post) -> Result<(), SurfaceError> {
        self.make(post).await?;
        // The new one is there; an old one that stays behind would show a turn that seems to run for ever.
        self.ports.surface.delete(self.subject.place, old).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Moment;
    use crate::driver::clock::{Clock, TokioClock};
    use crate::driver::fakes::{FakeSurface, Said};
    use crate::sandbox::{Done, Exec, Probe, Sandbox, SandboxError, Target};

    /// A sandbox that no live message ever asks.
    #[derive(Debug)]
    struct Unasked;

    #[async_trait::async_trait]
    impl Sandbox for Unasked {
        async fn exec(
            &self,
            _: &crate::domain::ids::AccountId,
            _: Exec,
        ) -> Result<Done, SandboxError> {
            unreachable!("a live message runs nothing")
        }
        async fn put(
            &self,
            _: &crate::domain::ids::AccountId,
            _: &str,
            _: bytes::Bytes,
        ) -> Result<(), SandboxError> {
            unreachable!("a live message writes nothing")
        }
        async fn get(
            &self,
            _: &crate::domain::ids::AccountId,
            _: &str,
            _: usize,
        ) -> Result<bytes::Bytes, SandboxError> {
            unreachable!("a live message reads nothing")
        }
        async fn kill(
            &self,
            _: &crate::domain::ids::AccountId,
            _: &Target,
        ) -> Result<(), SandboxError> {
            unreachable!("a live message ends nothing")
        }
        async fn probe(&self, _: &crate::domain::ids::AccountId) -> Result<Probe, SandboxError> {
            unreachable!("a live message probes nothing")
        }
    }

    const PLACE: ChannelId = ChannelId(7);

    fn start() -> (FakeSurface, LiveMessage) {
        start_with(Last::default())
    }

    fn start_with(existing: Last) -> (FakeSurface, LiveMessage) {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Moment(1_800_000_000_000)));
        let surface = FakeSurface::new(clock.clone());
        let ports = Ports {
            surface: Arc::new(surface.clone()),
            sandbox: Arc::new(Unasked),
            clock,
        };
        let subject = Subject {
            place: PLACE,
            turn: TurnId(1),
            after: MessageId(1),
        };
        (
            surface,
            LiveMessage::start(ports, Crowd::default(), subject, existing),
        )
    }

    fn text(words: &str) -> Post {
        Post {
            text: words.to_owned(),
            silent: true,
            ..Post::default()
        }
    }

    fn edits(said: &[Said]) -> Vec<String> {
        said.iter()
            .filter_map(|said| match said {
                Said::Edit { post, .. } => Some(post.text.clone()),
                _ => None,
            })
            .collect()
    }

    fn posts(said: &[Said]) -> usize {
        said.iter()
            .filter(|said| matches!(said, Said::Post { .. }))
            .count()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_state_is_shown_at_once_and_of_many_only_the_newest_follows() {
        let (surface, live) = start();
        live.show(text("one"));
        surface.until(|said| posts(said) == 1).await;
        for number in 0..300 {
            live.show(text(&format!("state {number}")));
        }
        let said = surface.until(|said| !edits(said).is_empty()).await;
        assert_eq!(edits(&said), ["state 299"]);
    }

    #[tokio::test(start_paused = true)]
    async fn edits_are_a_second_apart() {
        let (surface, live) = start();
        let began = Instant::now();
        for number in 0..5 {
            live.show(text(&number.to_string()));
            surface.until(|said| said.len() == number + 1).await;
        }
        assert!(began.elapsed() >= PACE * 4, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn no_edit_follows_a_state_that_looks_the_same() {
        let (surface, live) = start();
        live.show(text("same"));
        surface.until(|said| posts(said) == 1).await;
        live.show(text("same"));
        live.show(text("other"));
        let said = surface.until(|said| !edits(said).is_empty()).await;
        assert_eq!(edits(&said), ["other"]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_shown_after_it_was_closed() {
        let (surface, live) = start();
        live.show(text("one"));
        surface.until(|said| posts(said) == 1).await;
        live.show(text("too late"));
        assert!(live.close().await.message.is_some());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(edits(&surface.said()), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_state_lands_when_the_house_closes() {
        let (surface, live) = start();
        live.show(text("one"));
        surface.until(|said| posts(said) == 1).await;
        live.show(text("last"));
        live.close_after_last().await;
        assert_eq!(edits(&surface.said()), ["last"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_live_message_is_made_anew_once() {
        let (surface, mut live) = start();
        live.show(text("one"));
        surface.until(|said| posts(said) == 1).await;
        assert!(matches!(live.news().await, News::Made(_)));
        surface.fails("edit", SurfaceError::MessageGone);
        live.show(text("two"));
        surface.until(|said| posts(said) == 2).await;
        assert!(matches!(live.news().await, News::Made(_)));
        surface.fails("edit", SurfaceError::MessageGone);
        live.show(text("three"));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(posts(&surface.said()), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_live_message_of_fifty_five_minutes_is_replaced() {
        let (surface, live) = start();
        live.show(text("one"));
        surface.until(|said| posts(said) == 1).await;
        tokio::time::advance(OLDEST).await;
        live.show(text("two"));
        let said = surface
            .until(|said| said.iter().any(|said| matches!(said, Said::Delete { .. })))
            .await;
        assert_eq!(posts(&said), 2);
        assert!(edits(&said).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn while_discord_is_away_the_pace_slows_and_the_newest_state_still_comes() {
        let (surface, live) = start();
        live.show(text("one"));
        surface.until(|said| posts(said) == 1).await;
        surface.fails("edit", SurfaceError::Away("503".to_owned()));
        live.show(text("two"));
        tokio::time::sleep(Duration::from_secs(2)).await;
        live.show(text("three"));
        let said = surface.until(|said| !edits(said).is_empty()).await;
        assert_eq!(edits(&said), ["three"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_state_that_could_not_be_shown_is_tried_again_though_nothing_newer_comes() {
        let (surface, live) = start();
        surface.fails("post", SurfaceError::Away("503".to_owned()));
        live.show(text("one"));
        surface.until(|said| posts(said) == 1).await;
        for _ in 0..3 {
            surface.fails("edit", SurfaceError::Away("503".to_owned()));
        }
        live.show(text("two"));
        surface.until(|said| edits(said) == ["two"]).await;
        surface.fails("edit", SurfaceError::Away("503".to_owned()));
        live.show(text("last"));
        live.close_after_last().await;
        assert_eq!(edits(&surface.said()), ["two", "last"]);
        assert_eq!(posts(&surface.said()), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_nobody_holds_any_more_says_nothing() {
        let (surface, live) = start();
        live.show(text("one"));
        surface.until(|said| posts(said) == 1).await;
        surface.fails("edit", SurfaceError::Away("503".to_owned()));
        live.show(text("two"));
        tokio::time::sleep(PACE * 2).await;
        drop(live);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(edits(&surface.said()), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_an_earlier_process_made_is_found_and_goes_on() {
        let in_doubt = Last {
            message: None,
            in_doubt: true,
        };
        let (surface, mut live) = start_with(in_doubt);
        let button = crate::driver::ports::Button::Stop(TurnId(1));
        let earlier = Post {
            buttons: vec![button],
            ..text("from before")
        };
        let nonce = Nonce("forgotten".to_owned());
        let posted = super::super::ports::Surface::post(&surface, PLACE, earlier, nonce).await;
        live.show(text("goes on"));
        let News::Made(found) = live.news().await else {
            panic!("the place is there");
        };
        assert_eq!(Ok(found), posted);
        surface.until(|said| !edits(said).is_empty()).await;
        assert_eq!(posts(&surface.said()), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_lost_answer_it_is_looked_for_before_another_is_made() {
        let (surface, live) = start();
        surface.fails("post", SurfaceError::Away("the answer was lost".to_owned()));
        surface.fails("ours_after", SurfaceError::Away("503".to_owned()));
        live.show(text("one"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        live.show(text("two"));
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(posts(&surface.said()), 0);
        let last = live.close().await;
        assert_eq!((last.message, last.in_doubt), (None, true));
    }
}
