//! Runs one turn: picks what happens, hands it to the machine, does what the machine wants.
//!
//! There is one loop. Whatever takes time runs beside it and reports back as news; whatever must survive is on disk before the
//! next step. A turn that an earlier process began is rebuilt by reading its stream from the first byte.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::agent::event::Event as Told;
use crate::domain::chat::Chat;
use crate::domain::grant::Refusal;
use crate::domain::money::Usd;
use crate::domain::time::Moment;
use crate::domain::turn_record::{Stage, TurnRecord};
use crate::present;
use crate::present::notice;
use crate::store::StoreError;
use crate::turn::effect::{Effect, Timer};
use crate::turn::event::{Collected, Event, Stop};
use crate::turn::machine::{AWAY_LIMIT, Turn};
use crate::turn::state::State;

use super::deliver;
use super::follower::{self, News, while_away};
use super::gate;
use super::house::House;
use super::hub::Letter;
use super::joining;
use super::launch;
use super::live_message::{self, Last, LiveMessage, Subject};
use super::newest;
use super::ports::{Button, Post};
use super::resume;
use super::scope;
use super::slots::Slot;
use super::turn_directory::Run;
use super::warnings;

/// News that may wait for the loop.
const NEWS: usize = 64;

/// How long a closing house waits for a live message's last edit; the whole exit has ten seconds.
const LAST_WORD: Duration = Duration::from_secs(4);

/// What is left of a turn when its loop ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing: it is over.
    Nothing,
    /// The house closes: the run goes on in the sandbox, and the next start picks it up.
    ForNextStart,
}

/// Runs `record` to its end, or until the house closes.
pub async fn run(
    house: &Arc<House>,
    chat: Chat,
    record: TurnRecord,
    letters: &mut mpsc::Receiver<Letter>,
) -> anyhow::Result<Left> {
    if matches!(record.stage, Stage::Settled { .. }) {
        return deliver::rest(house, &chat, record).await;
    }
    let (sender, news) = mpsc::channel(NEWS);
    let now = house.now();
    let turn = Turn::new(
        gate::facts_of(house, &chat, &record),
        record.started_at.unwrap_or(now),
    );
    let live = LiveMessage::start(
        house.ports.clone(),
        house.crowd.clone(),
        Subject {
            place: chat.place,
            turn: record.id,
            after: resume::beginning(&record),
        },
        Last {
            message: record.live,
            // An earlier process may have made one and had no time to note it.
            in_doubt: record.live.is_none() && record.stage != Stage::Waiting,
        },
    );
    let (words, said) = mpsc::unbounded_channel();
    let mut jobs = JoinSet::new();
    jobs.spawn(speak(house.clone(), said, sender.clone()));
    let mut running = Running {
        house,
        chat,
        record,
        turn,
        live: Some(live),
        timers: HashMap::new(),
        jobs,
        sender,
        words,
        slot: None,
        catching_up: false,
        over: false,
    };
    running.begin().await?;
    running.until_over(letters, news).await
}

/// Ends a turn that nobody can be told of any more, before it began.
pub async fn drop_unheard(house: &House, record: &TurnRecord) -> anyhow::Result<()> {
    let mut record = record.clone();
    record.stage = Stage::Done;
    house
        .store
        .release(record.id)
        .context("could not release a hold")?;
    house
        .store
        .put_turn(&record)
        .context("could not store the turn")?;
    house
        .store
        .flush()
        .await
        .context("could not store the turn")
}

struct Running<'a> {
    house: &'a Arc<House>,
    chat: Chat,
    record: TurnRecord,
    turn: Turn,
    live: Option<LiveMessage>,
    timers: HashMap<Timer, Moment>,
    jobs: JoinSet<()>,
    sender: mpsc::Sender<News>,
    words: mpsc::UnboundedSender<(Run, Word)>,
    slot: Option<Slot>,
    /// What an earlier process began is being read again: until that is done no timer fires, since what became of the turn
    /// meanwhile stands in its stream.
    catching_up: bool,
    over: bool,
}

impl Running<'_> {
    /// Starts, or goes on from where an earlier process stood.
    async fn begin(&mut self) -> anyhow::Result<()> {
        let effects = self.turn.begin();
        if self.record.stage == Stage::Waiting {
            self.perform_all(effects).await?;
        } else {
            self.unmark();
            self.catching_up = self.record.stage != Stage::Held;
            // The money is held already, and a turn that was admitted is not asked again.
            self.slot = self.house.slots.take(self.record.request.author.member);
            self.held(self.record.hold).await?;
        }
        if self.chat.closed {
            self.happen(Event::StopRequested(Stop::ThreadGone)).await?;
        } else if let Some(by) = self.record.stopped_by {
            self.happen(Event::StopRequested(Stop::By(by))).await?;
        }
        Ok(())
    }

    async fn until_over(
        mut self,
        letters: &mut mpsc::Receiver<Letter>,
        mut news: mpsc::Receiver<News>,
    ) -> anyhow::Result<Left> {
        while !self.over {
            let next = self.next_timer();
            tokio::select! {
                () = self.house.cancel.cancelled() => return self.leave().await,
                Some(letter) = letters.recv() => self.read(letter).await?,
                Some(news) = news.recv() => self.take(news).await?,
                news = live_news(&mut self.live) => self.live_moved(news).await?,
                timer = due(next, self.house) => {
                    self.timers.remove(&timer);
                    self.happen(Event::TimerFired(timer)).await?;
                }
            }
        }
        Ok(Left::Nothing)
    }

    async fn read(&mut self, letter: Letter) -> anyhow::Result<()> {
        match letter {
            Letter::Stop { turn, by } if turn.is_none_or(|turn| turn == self.record.id) => {
                self.record.stopped_by.get_or_insert(by);
                self.save().await?;
                self.happen(Event::StopRequested(Stop::By(by))).await
            }
            Letter::Recheck if !gate::may_go_on(self.house, &self.chat, &self.record)? => {
                self.happen(Event::StopRequested(Stop::Revoked)).await
            }
            Letter::Limit { turn } if turn == self.record.id => {
                self.happen(Event::StopRequested(Stop::Limit)).await
            }
            Letter::Gone => {
                self.chat.closed = true;
                self.house
                    .store
                    .revise_chat(self.chat.thread, |chat| chat.closed = true)
                    .context("could not store the chat")?;
                self.happen(Event::StopRequested(Stop::ThreadGone)).await
            }
            Letter::Look => self.look().await,
            Letter::Stop { .. } | Letter::Limit { .. } | Letter::Recheck => Ok(()),
        }
    }

    async fn take(&mut self, news: News) -> anyhow::Result<()> {
        match news {
            News::Event(event) => {
                // A sandbox that is away, or a run that is gone, is not caught up with: the clocks go on.
                self.catching_up &= event == Event::Started;
                self.happen(event).await
            }
            News::Slot(slot) => {
                self.slot = Some(slot);
                self.unmark();
                self.admit().await
            }
            News::Read { offset, events } => {
                for event in events {
                    if let Told::Echo { id: Some(id), .. } = &event {
                        joining::taken(self.house, &self.chat, id).await?;
                    }
                    self.happen(Event::Agent(event)).await?;
                }
                self.note_seen(offset)
            }
            News::CaughtUp => {
                self.catching_up = false;
                self.look().await
            }
        }
    }

    /// Notes how far the stream was read. With the next flush on disk: it only tells whether the stream shrank.
    fn note_seen(&mut self, offset: u64) -> anyhow::Result<()> {
        if offset <= self.record.seen || !matches!(self.record.stage, Stage::Held | Stage::Started)
        {
            return Ok(());
        }
        self.record.seen = offset;
        self.house
            .store
            .put_turn(&self.record)
            .context("could not store the turn")
    }

    /// Something new lies in the store: this request may have been taken back, another may join.
    async fn look(&mut self) -> anyhow::Result<()> {
        if self.was_taken_back()? || *self.turn.state() != State::Running || self.catching_up {
            return Ok(());
        }
        match joining::next_steer(self.house, &self.chat, &self.record)? {
            Some(steer) if !self.turn.untaken().contains(&steer.id) => {
                self.happen(Event::Steered {
                    id: steer.id,
                    line: steer.line,
                })
                .await
            }
            _ => Ok(()),
        }
    }

    async fn live_moved(&mut self, news: live_message::News) -> anyhow::Result<()> {
        match news {
            live_message::News::Made(message) => {
                self.record.live = Some(message);
                self.save().await
            }
            live_message::News::PlaceGone => self.read(Letter::Gone).await,
        }
    }

    async fn happen(&mut self, event: Event) -> anyhow::Result<()> {
        let effects = self.turn.handle(event, self.house.now());
        self.perform_all(effects).await
    }

    async fn perform_all(&mut self, effects: Vec<Effect>) -> anyhow::Result<()> {
        for effect in effects {
            // Boxed: an effect can make an event happen, which has effects.
            Box::pin(self.perform(effect)).await?;
        }
        Ok(())
    }

    async fn perform(&mut self, effect: Effect) -> anyhow::Result<()> {
        match effect {
            Effect::Hold => self.wait_for_slot(),
            Effect::Start => return self.start().await,
            Effect::ShowLive => self.show_live(),
            Effect::Say { id, line } => self.say(id, line),
            Effect::Deny { request_id, reason } => {
                let line = crate::agent::prompt::deny_line(&request_id, &reason);
                self.say(format!("deny-{request_id}"), line);
            }
            Effect::Interrupt => self.say(
                "interrupt".to_owned(),
                crate::agent::prompt::interrupt_line("interrupt"),
            ),
            Effect::CloseInput => {
                let _ = self.words.send((self.run_name(), Word::End));
            }
            Effect::Kill => self.kill(),
            Effect::Schedule { timer, at } => {
                self.timers.insert(timer, at);
            }
            Effect::Collect => self.collect(),
            Effect::Settle { cost, estimated } => return self.settle(cost, estimated).await,
            Effect::Deliver => return self.deliver().await,
            Effect::RenewSession => return self.renew_session().await,
            Effect::KeepSession => return self.keep_session().await,
            Effect::Alarm(what) => super::alarm::tell_admins(self.house, &what),
            Effect::Finish => return self.finish().await,
        }
        Ok(())
    }

    fn wait_for_slot(&mut self) {
        let slots = self.house.slots.clone();
        let member = self.record.request.author.member;
        let sender = self.sender.clone();
        let slot = slots.take(member);
        if slot.is_none() {
            self.mark();
        }
        self.jobs.spawn(async move {
            let slot = match slot {
                Some(slot) => slot,
                None => slots.wait(member).await,
            };
            let _ = sender.send(News::Slot(slot)).await;
        });
    }

    /// Shows that the request waits.
    fn mark(&self) {
        if let Some(message) = self.record.request.message {
            let channel = deliver::channel_of_request(&self.chat, &self.record);
            let surface = &self.house.ports.surface;
            surface.react(channel, message, notice::WAITING_MARK);
        }
    }

    /// Shows that it waits no longer.
    fn unmark(&self) {
        if let Some(message) = self.record.request.message {
            let channel = deliver::channel_of_request(&self.chat, &self.record);
            let surface = &self.house.ports.surface;
            surface.unreact(channel, message, notice::WAITING_MARK);
        }
    }

    /// Passes the gate once more and holds the money. On disk before anything runs.
    async fn admit(&mut self) -> anyhow::Result<()> {
        if self.was_taken_back()? {
            return Ok(());
        }
        let author = &self.record.request.author;
        match newest::person(self.house, self.chat.guild, author).await {
            Some(author) => self.record.request.author = author,
            None => return self.happen(Event::Refused(Refusal::LeftServer)).await,
        }
        // While the request waited, people may have changed how the chat works.
        let chat = self.house.store.chat(self.chat.thread);
        if let Some(chat) = chat.context("could not read the chat")? {
            self.chat = chat;
        }
        joining::take_in_following(self.house, &self.chat, &mut self.record)?;
        match gate::hold(self.house, &self.chat, &mut self.record)? {
            Ok(amount) => {
                scope::keep_company(self.house, &mut self.chat, &mut self.record).await?;
                self.save().await?;
                self.held(amount).await
            }
            Err(refusal) => self.happen(Event::Refused(refusal)).await,
        }
    }

    async fn held(&mut self, amount: Usd) -> anyhow::Result<()> {
        if self.record.ship_withheld {
            self.happen(Event::ShipWithheld).await?;
        }
        self.happen(Event::Held(amount)).await
    }

    /// Reads the request once more: while it waited it may have been edited, deleted or stopped.
    fn was_taken_back(&mut self) -> anyhow::Result<bool> {
        if self.record.stage != Stage::Waiting {
            return Ok(false);
        }
        let newest = self
            .house
            .store
            .turn(self.record.id)
            .context("could not read the turn")?;
        match newest {
            Some(newest) if newest.stage == Stage::Waiting => {
                self.record = newest;
                Ok(false)
            }
            _ => {
                self.unmark();
                self.over = true;
                Ok(true)
            }
        }
    }

    async fn start(&mut self) -> anyhow::Result<()> {
        self.record.session = Some(self.chat.session.id.clone());
        self.record.resumes = self.chat.session.begun;
        self.record.stage = Stage::Started;
        self.save().await?;
        let house = self.house.clone();
        let chat = self.chat.clone();
        let record = self.record.clone();
        let sender = self.sender.clone();
        let run = self.run_name();
        self.jobs.spawn(async move {
            match launch::launch(&house, &chat, &record, &sender).await {
                Ok(()) => {
                    let _ = sender.send(News::Event(Event::Started)).await;
                    follower::follow(&house.turns, run, record.seen, sender).await;
                }
                Err(trouble) => {
                    let _ = sender.send(News::Event(Event::NotStarted(trouble))).await;
                }
            }
        });
        Ok(())
    }

    fn show_live(&self) {
        let Some(live) = &self.live else { return };
        let text = present::live::live(&self.turn, self.house.now());
        live.show(Post {
            text: self.house.scrub(&text),
            buttons: vec![Button::Stop(self.record.id)],
            silent: true,
            ..Post::default()
        });
    }

    fn say(&self, id: String, line: String) {
        // The receiver lives as long as the jobs of this turn.
        let _ = self.words.send((self.run_name(), Word::Say { id, line }));
    }

    fn kill(&mut self) {
        let (house, run, sender) = (self.house.clone(), self.run_name(), self.sender.clone());
        self.jobs.spawn(async move {
            let alone = house.is_alone(&run);
            match while_away(&sender, || house.turns.kill(&run, alone)).await {
                Ok(()) => {}
                Err(error) => tracing::error!(turn = %run.turn, %error, "could not make sure that nothing is left running"),
            }
            let _ = sender.send(News::Event(Event::Killed)).await;
        });
    }

    fn collect(&mut self) {
        let (house, chat, record, sender) = (
            self.house.clone(),
            self.chat.clone(),
            self.record.clone(),
            self.sender.clone(),
        );
        let run = self.run_name();
        self.jobs.spawn(async move {
            let collect = while_away(&sender, || launch::collect(&house, &chat, &record, &run));
            // What cannot be looked for in all that time is named in the answer as not found.
            let collected = match tokio::time::timeout(AWAY_LIMIT, collect).await {
                Ok(Ok(collected)) => collected,
                Ok(Err(error)) => not_collected(error.to_string()),
                Err(_) => not_collected("the sandbox is away".to_owned()),
            };
            let _ = sender.send(News::Event(Event::Collected(collected))).await;
        });
    }

    /// Books what the turn cost, and notes what will be said of it.
    async fn settle(&mut self, cost: Usd, estimated: bool) -> anyhow::Result<()> {
        let (cost, estimated) = match self
            .house
            .provider
            .close(&self.house.store, self.record.id)
            .context("could not read what the meter counted")?
        {
            Some(bill) => {
                self.happen(Event::Metered(bill.spent)).await?;
                let (cost, estimated) = self.turn.cost();
                (cost, estimated || bill.estimated)
            }
            None => (cost, estimated),
        };
        self.conclude(Stage::Settled { cost, estimated }).await?;
        self.happen(Event::Settled).await
    }

    /// Notes the end of the turn and what will be said of it, then books it. In this order: a turn that is booked can never
    /// look as if it still had to run.
    async fn conclude(&mut self, stage: Stage) -> anyhow::Result<()> {
        let live = match self.live.take() {
            Some(live) => live.close().await,
            None => Last::default(),
        };
        self.record.stage = stage;
        deliver::plan(self.house, &self.chat, &self.turn, &mut self.record, live);
        let store = &self.house.store;
        store
            .put_turn(&self.record)
            .context("could not store the turn")?;
        deliver::book(self.house, &self.record).context("could not book a turn")?;
        warnings::after(self.house, &self.chat, &self.record);
        self.flush().await
    }

    async fn deliver(&mut self) -> anyhow::Result<()> {
        if !matches!(self.record.stage, Stage::Settled { .. }) {
            // Refused: there is nothing to book, and nothing may refuse it a second time.
            let nothing = Stage::Settled {
                cost: Usd::ZERO,
                estimated: false,
            };
            self.conclude(nothing).await?;
        }
        let (house, chat, mut record, sender) = (
            self.house.clone(),
            self.chat.clone(),
            self.record.clone(),
            self.sender.clone(),
        );
        self.jobs.spawn(async move {
            if let Err(error) = deliver::all(&house, &chat, &mut record).await {
                tracing::error!(turn = %record.id, %error, "could not store what was delivered");
            }
            let _ = sender.send(News::Event(Event::Delivered)).await;
        });
        Ok(())
    }

    async fn renew_session(&mut self) -> anyhow::Result<()> {
        self.record.attempt += 1;
        self.record.seen = 0;
        let lost = std::mem::replace(&mut self.chat.session, gate::new_session());
        let new = &self.chat.session;
        self.house
            .store
            .revise_chat(self.chat.thread, |chat| {
                if chat.session.id == lost.id {
                    chat.session = new.clone();
                }
            })
            .context("could not store the chat")?;
        self.save().await
    }

    async fn keep_session(&mut self) -> anyhow::Result<()> {
        if self.chat.session.begun {
            return Ok(());
        }
        self.chat.session.begun = true;
        self.keep_chat()?;
        self.save().await
    }

    async fn finish(&mut self) -> anyhow::Result<()> {
        self.jobs.abort_all();
        self.over = true;
        // Parts are marked as they arrive, by the task that sends them: the newest record is the store's.
        if let Some(newest) = self
            .house
            .store
            .turn(self.record.id)
            .context("could not read the turn")?
        {
            self.record = newest;
        }
        self.record.stage = Stage::Done;
        self.house
            .store
            .release(self.record.id)
            .context("could not release a hold")?;
        self.house
            .store
            .forget_counted(self.record.id)
            .context("could not forget what the meter counted")?;
        self.save().await
    }

    /// The house closes: the run goes on without us, people are told so, and the next start reads on.
    async fn leave(mut self) -> anyhow::Result<Left> {
        self.jobs.abort_all();
        if let Some(mut live) = self.live.take() {
            while let Some(live_message::News::Made(message)) = live.news().now_or_never() {
                self.record.live = Some(message);
                self.save().await?;
            }
            let text = notice::interrupted();
            if self.record.live.is_some() || self.record.stage != Stage::Waiting {
                live.show(Post {
                    text,
                    silent: true,
                    ..Post::default()
                });
            }
            if let Ok(last) = tokio::time::timeout(LAST_WORD, live.close_after_last()).await {
                self.record.live = last.message.or(self.record.live);
            }
        }
        self.save().await?;
        Ok(Left::ForNextStart)
    }

    /// Keeps what this turn made of the chat's session, unless people began another one meanwhile.
    fn keep_chat(&self) -> anyhow::Result<()> {
        let session = &self.chat.session;
        self.house
            .store
            .revise_chat(self.chat.thread, |chat| {
                if chat.session.id == session.id {
                    chat.session.begun = session.begun;
                }
            })
            .context("could not store the chat")?;
        Ok(())
    }

    async fn save(&self) -> anyhow::Result<()> {
        self.put().context("could not store the turn")?;
        self.flush().await
    }

    /// Keeps the record. One that waits belongs to people, who may have edited or deleted it meanwhile; one whose end is noted
    /// belongs to the task that delivers it and marks what arrived.
    fn put(&self) -> Result<(), StoreError> {
        match self.record.stage {
            Stage::Waiting => {}
            Stage::Settled { .. } => return Ok(()),
            Stage::Held | Stage::Started | Stage::Done => {
                return self.house.store.put_turn(&self.record);
            }
        }
        let (live, stopped_by) = (self.record.live, self.record.stopped_by);
        let store = &self.house.store;
        store
            .revise_waiting(self.record.id, |record| {
                record.live = live;
                record.stopped_by = record.stopped_by.or(stopped_by);
            })
            .map(drop)
    }

    async fn flush(&self) -> anyhow::Result<()> {
        let flushed = self.house.store.flush().await;
        flushed.context("could not store the turn")
    }

    fn run_name(&self) -> Run {
        launch::run_of(&self.chat, &self.record)
    }

    fn next_timer(&self) -> Option<(Timer, Moment)> {
        if self.catching_up {
            return None;
        }
        self.timers
            .iter()
            .min_by_key(|(_, at)| **at)
            .map(|(timer, at)| (*timer, *at))
    }
}

fn not_collected(why: String) -> Collected {
    Collected {
        failed: Some(why),
        ..Collected::default()
    }
}

/// What the agent is told while it runs.
enum Word {
    Say { id: String, line: String },
    End,
}

/// Tells the agent, in order, for as long as the sandbox is away.
async fn speak(
    house: Arc<House>,
    mut words: mpsc::UnboundedReceiver<(Run, Word)>,
    sender: mpsc::Sender<News>,
) {
    while let Some((run, word)) = words.recv().await {
        let (turns, run, word) = (&house.turns, &run, &word);
        let tell = || async move {
            match word {
                Word::Say { id, line } => turns.say(run, id, line).await,
                Word::End => turns.close_input(run).await,
            }
        };
        if let Err(error) = while_away(&sender, tell).await {
            tracing::warn!(turn = %run.turn, %error, "could not tell the agent");
        }
    }
}

async fn live_news(live: &mut Option<LiveMessage>) -> live_message::News {
    match live {
        Some(live) => live.news().await,
        None => std::future::pending().await,
    }
}

async fn due(next: Option<(Timer, Moment)>, house: &House) -> Timer {
    match next {
        Some((timer, at)) => {
            tokio::time::sleep(at.since(house.now())).await;
            timer
        }
        None => std::future::pending().await,
    }
}
