//! One turn from its admission to its last word: events in, effects out.
//!
//! It never asks the time, never waits and never fails; late and doubled news change nothing.

use std::time::Duration;

use crate::agent::event::{Event as Told, Init, PermissionAsked};
use crate::domain::grant::Refusal;
use crate::domain::money::Usd;
use crate::domain::time::Moment;

use super::alarm;
use super::effect::{Effect, Timer};
use super::end::{self, End, Failure};
use super::event::{Collected, Event, Stop, Trouble};
use super::facts::TurnFacts;
use super::state::{Attempt, Closing, Leaving, State};
use super::work::Work;

/// How long a sandbox may be away before the turn is given up.
pub const AWAY_LIMIT: Duration = Duration::from_secs(600);
/// How long a kill may take before the turn ends without its confirmation.
const KILL_PATIENCE: Duration = Duration::from_secs(30);
/// How long the rest of the stream is waited for once the process is known to be gone.
const REST_PATIENCE: Duration = Duration::from_secs(2);
/// The clock of the live message: every five seconds, every ten once the turn has run for two minutes.
const TICK: Duration = Duration::from_secs(5);
const SLOW_TICK: Duration = Duration::from_secs(10);
const SLOW_AFTER: Duration = Duration::from_secs(120);

/// So many times what was held an agent's own total may be, and be believed; of a small hold, so many times this.
const MOST_HOLDS: u64 = 100;
const SMALL_HOLD: Usd = Usd(1_000_000);

const NOBODY_TO_ASK: &str =
    "Nobody can be asked here. State your assumption and go on, or ask in your answer.";

/// One turn.
#[derive(Clone, Debug)]
pub struct Turn {
    facts: TurnFacts,
    state: State,
    work: Work,
    attempt: Attempt,
    /// What is held; `None` before the gate was passed.
    hold: Option<Usd>,
    /// What the processes before this one cost, by their own account.
    earlier: Usd,
    /// What the meter counted, and whether that is an estimate.
    metered: Option<(Usd, bool)>,
    /// What the answers cost whose cost no result told.
    priced: Option<Usd>,
    ship_withheld: bool,
    heard: Moment,
    away: Option<Moment>,
    ran: bool,
    /// Steers that the stream has not echoed.
    untaken: Vec<String>,
    /// The agent has reported a result and taken up nothing since.
    is_idle: bool,
    session_kept: bool,
    complaint: String,
    collected: Collected,
}

impl Turn {
    /// Returns a turn that was asked for and waits to be admitted; see [`Turn::begin`].
    pub fn new(facts: TurnFacts, now: Moment) -> Turn {
        Turn {
            facts,
            state: State::Admitting { waits: false },
            work: Work::default(),
            attempt: Attempt::First,
            hold: None,
            earlier: Usd::ZERO,
            metered: None,
            priced: None,
            ship_withheld: false,
            heard: now,
            away: None,
            ran: false,
            untaken: Vec::new(),
            is_idle: false,
            session_kept: false,
            complaint: String::new(),
            collected: Collected::default(),
        }
    }

    /// Returns what is to be done first.
    pub fn begin(&self) -> Vec<Effect> {
        vec![Effect::Hold]
    }

    /// Returns what was known before it ran.
    pub fn facts(&self) -> &TurnFacts {
        &self.facts
    }

    /// Returns where it stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns what the agent has done.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Returns which start of the agent this is.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// Returns since when the sandbox is away, if it is.
    pub fn away_since(&self) -> Option<Moment> {
        self.away
    }

    /// Returns whether it runs at `chat` although its author holds `ship`, because of who else spoke or was quoted in the chat.
    pub fn ship_withheld(&self) -> bool {
        self.ship_withheld
    }

    /// Returns how it ended, once that is known.
    pub fn end(&self) -> Option<&End> {
        match &self.state {
            State::Closing { end, .. } => Some(end),
            _ => None,
        }
    }

    /// Returns why it is to be stopped, if it is and its end is not known yet.
    pub fn stopping(&self) -> Option<Stop> {
        match self.state {
            State::Starting { stop } => stop,
            State::Stopping { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Returns whether nothing is left to do for it.
    pub fn is_over(&self) -> bool {
        matches!(
            self.state,
            State::Closing {
                stage: Closing::Over,
                ..
            }
        )
    }

    /// Returns how long it has run, or ran.
    pub fn elapsed(&self, now: Moment) -> Duration {
        match self.state {
            State::Closing { at, .. } => at.since(self.facts.at),
            _ => now.since(self.facts.at),
        }
    }

    /// Returns the produced files that were found.
    pub fn collected(&self) -> &Collected {
        &self.collected
    }

    /// Returns the steers that the agent has not taken: they are requests of their own after the turn.
    pub fn untaken(&self) -> &[String] {
        &self.untaken
    }

    /// Returns the agent's answer: its result, else its last words; empty if it said nothing.
    pub fn text(&self) -> &str {
        match self.work.result() {
            Some(result) if !result.is_error && !result.text.trim().is_empty() => &result.text,
            _ => self.work.newest_text(),
        }
    }

    /// Returns what it cost and whether that is an estimate: everything is that the meter did not count.
    pub fn cost(&self) -> (Usd, bool) {
        if matches!(self.end(), Some(End::Stopped(Stop::Tampered))) {
            // The stream proves nothing any more, so what was reserved is what is booked, or more if the meter counted more.
            let hold = self.hold.unwrap_or_default();
            return (
                self.metered.map_or(hold, |(metered, _)| metered.max(hold)),
                true,
            );
        }
        if let Some(metered) = self.metered {
            return metered;
        }
        let known = self.cost_reported() + self.priced.unwrap_or_default();
        // What nobody can tell costs what was reserved for it.
        let is_unknown = self.priced.is_none() && self.work.owes();
        let cost = if is_unknown || self.reports_nonsense() {
            known.max(self.hold.unwrap_or_default())
        } else {
            known
        };
        (cost, self.has_run() || cost > Usd::ZERO)
    }

    /// Returns what it cost by the agent's own account; `None`: its last process gave none.
    pub fn reported(&self) -> Option<Usd> {
        let result = self.work.result()?;
        Some(self.earlier + result.total_cost)
    }

    /// Returns whether an agent's process was ever there.
    pub fn has_run(&self) -> bool {
        self.ran && !matches!(self.end(), Some(End::NotStarted(_)))
    }

    /// Takes notice of `event` and returns what is to be done because of it, in this order.
    pub fn handle(&mut self, event: Event, now: Moment) -> Vec<Effect> {
        match (&self.state, event) {
            (State::Closing { stage, .. }, event) => self.close(*stage, event),
            (_, Event::Metered { cost, estimated }) => self.meter(cost, estimated),
            (_, Event::Priced(cost)) => self.price(cost),
            (_, Event::StopRequested(why)) => self.stop(why, now),
            (_, Event::TimerFired(timer)) => self.on_timer(timer, now),
            (_, Event::Away) => self.go_away(now),
            (_, Event::Back) => self.come_back(now),
            (State::Admitting { .. }, Event::ShipWithheld) => {
                self.ship_withheld = true;
                vec![]
            }
            (State::Admitting { waits: false }, Event::NoPlace) => {
                self.state = State::Admitting { waits: true };
                vec![Effect::ShowLive]
            }
            (State::Admitting { .. }, Event::Held(hold)) => self.on_held(hold, now),
            (State::Admitting { .. }, Event::Refused(refusal)) => self.refuse(refusal, now),
            // Whatever else is heard before the gate was passed belongs to no run of this turn.
            (State::Admitting { .. }, _) => vec![],
            (State::Starting { .. }, Event::Started) => self.on_started(now),
            (State::Starting { stop: Some(why) }, Event::CalledOff | Event::NotStarted(_)) => {
                self.finish(End::Stopped(*why), now)
            }
            (State::Starting { stop: None }, Event::NotStarted(trouble)) => {
                self.finish(End::NotStarted(trouble), now)
            }
            (_, Event::Agent(told)) => self.on_told(told, now),
            (_, Event::Steered { id, line }) => self.steer(id, line),
            (_, Event::NotSaid(id)) => self.on_not_said(&id, now),
            (_, Event::Complained(text)) => {
                self.complaint = text;
                vec![]
            }
            (_, Event::Shrank) => self.stop(Stop::Tampered, now),
            (_, Event::Ended(exit)) => self.on_ended(exit, now),
            (_, Event::Killed) => self.on_killed(now),
            // Doubled news, and news of an end that is not known yet.
            (
                _,
                Event::NoPlace
                | Event::Held(_)
                | Event::ShipWithheld
                | Event::Refused(_)
                | Event::Started
                | Event::NotStarted(_)
                | Event::CalledOff
                | Event::Collected(_)
                | Event::Settled
                | Event::Delivered,
            ) => vec![],
        }
    }

    // ---- Beginning

    fn on_held(&mut self, hold: Usd, now: Moment) -> Vec<Effect> {
        self.hold = Some(hold);
        self.state = State::Starting { stop: None };
        self.heard = now;
        let mut effects = vec![Effect::ShowLive, Effect::Start];
        effects.extend(self.clocks(now));
        effects.push(schedule(Timer::Tick, now + self.tick(now)));
        effects
    }

    /// The clocks that watch a run; one that fired while nothing was to be watched must be set again.
    fn clocks(&self, now: Moment) -> [Effect; 2] {
        [
            schedule(Timer::WallClock, self.time_up()),
            schedule(Timer::Silence, now + self.facts.limits.silence),
        ]
    }

    fn refuse(&mut self, refusal: Refusal, now: Moment) -> Vec<Effect> {
        self.state = State::Closing {
            stage: Closing::Delivering,
            end: End::Refused(refusal),
            at: now,
        };
        vec![Effect::Deliver]
    }

    fn on_started(&mut self, now: Moment) -> Vec<Effect> {
        let stop = self.stopping();
        self.state = State::Running;
        self.ran = true;
        self.heard = now;
        match stop {
            Some(why) => self.stop(why, now),
            None => vec![Effect::ShowLive],
        }
    }

    // ---- The agent's stream

    fn on_told(&mut self, told: Told, now: Moment) -> Vec<Effect> {
        let mut effects = match self.state {
            // The run is plainly there, whatever became of the news of its start.
            State::Starting { .. } => self.on_started(now),
            _ => vec![],
        };
        self.heard = now;
        if self.work.note(&told, now) {
            effects.push(Effect::ShowLive);
        }
        if !self.session_kept && shows_a_session(&told) {
            self.session_kept = true;
            effects.push(Effect::KeepSession);
        }
        match told {
            Told::Result(_) => self.is_idle = true,
            Told::Init(_) | Told::Echo { .. } => self.is_idle = false,
            _ => {}
        }
        effects.extend(match told {
            Told::Init(init) => self.on_init(&init, now),
            Told::Permission(asked) => vec![deny(asked)],
            Told::Echo { id: Some(id), .. } => {
                self.untaken.retain(|untaken| *untaken != id);
                vec![]
            }
            Told::Result(_) => self.on_result(now),
            _ => vec![],
        });
        effects
    }

    fn on_init(&mut self, init: &Init, now: Moment) -> Vec<Effect> {
        if init.permission_mode != self.facts.mode {
            return self.stop(Stop::WrongMode, now);
        }
        if let State::Ending {
            leaving: Leaving::Waiting,
            ..
        } = self.state
        {
            // The process took up another turn of its own; its result counts.
            self.state = State::Running;
            return self.clocks(now).to_vec();
        }
        vec![]
    }

    fn on_result(&mut self, now: Moment) -> Vec<Effect> {
        match self.state {
            State::Running if self.untaken.is_empty() => {
                let until = now + self.facts.limits.grace;
                self.state = State::Ending {
                    leaving: Leaving::Waiting,
                    until,
                };
                vec![Effect::CloseInput, schedule(Timer::ResultGrace, until)]
            }
            State::Stopping { .. } => vec![Effect::CloseInput],
            _ => vec![],
        }
    }

    fn steer(&mut self, id: String, line: String) -> Vec<Effect> {
        self.untaken.push(id.clone());
        match self.state {
            State::Running => vec![Effect::Say { id, line }],
            // Too late or too early to join: it stays untaken.
            _ => vec![],
        }
    }

    /// What could not be said is never echoed, so nothing waits for that: it stays a request of its own.
    fn on_not_said(&mut self, id: &str, now: Moment) -> Vec<Effect> {
        self.untaken.retain(|untaken| untaken != id);
        match self.is_idle {
            true => self.on_result(now),
            false => vec![],
        }
    }

    fn meter(&mut self, cost: Usd, estimated: bool) -> Vec<Effect> {
        let (before, was) = self.metered.unwrap_or_default();
        self.metered = Some((before.max(cost), was || estimated));
        vec![]
    }

    fn price(&mut self, cost: Usd) -> Vec<Effect> {
        self.priced = Some(cost);
        vec![]
    }

    // ---- Stopping

    fn stop(&mut self, why: Stop, now: Moment) -> Vec<Effect> {
        match &mut self.state {
            // Nothing is held, and nothing is there that could be stopped.
            State::Admitting { .. } => self.finish(End::Stopped(why), now),
            State::Starting { stop } => {
                let first = stop.is_none();
                *stop = Some(graver(*stop, why));
                if first {
                    vec![Effect::CallOff, Effect::ShowLive]
                } else {
                    vec![]
                }
            }
            State::Running if is_foul(why) => self.kill_for(why, now),
            State::Running => {
                let until = now + self.facts.limits.grace;
                self.state = State::Stopping {
                    why,
                    leaving: Leaving::Waiting,
                    until,
                };
                vec![
                    Effect::Interrupt,
                    Effect::ShowLive,
                    schedule(Timer::StopGrace, until),
                ]
            }
            State::Stopping { why: first, .. } if is_foul(why) && !is_foul(*first) => {
                self.kill_for(why, now)
            }
            State::Ending { .. } if is_foul(why) => self.kill_for(why, now),
            // The result is there already: what is left of the process need not be waited for.
            State::Ending {
                leaving: leaving @ Leaving::Waiting,
                until,
            } => {
                *leaving = Leaving::Killing;
                *until = now + KILL_PATIENCE;
                vec![Effect::Kill, schedule(Timer::ResultGrace, *until)]
            }
            State::Stopping { .. } | State::Ending { .. } | State::Closing { .. } => vec![],
        }
    }

    /// A run that is not what it should be gets no time for a last word.
    fn kill_for(&mut self, why: Stop, now: Moment) -> Vec<Effect> {
        let until = now + KILL_PATIENCE;
        self.state = State::Stopping {
            why,
            leaving: Leaving::Killing,
            until,
        };
        let what = match why {
            Stop::Tampered => "its stream became shorter, so somebody changed it",
            _ => "the agent reports another permission mode than was asked for",
        };
        vec![
            Effect::Kill,
            Effect::Alarm(format!("turn {} was killed: {what}", self.facts.id)),
            Effect::ShowLive,
            schedule(Timer::StopGrace, until),
        ]
    }

    // ---- The process goes

    fn on_killed(&mut self, now: Moment) -> Vec<Effect> {
        let rest = now + REST_PATIENCE;
        let timer = match &mut self.state {
            State::Stopping { leaving, until, .. } => {
                (*leaving, *until) = (Leaving::Gone, rest);
                Timer::StopGrace
            }
            State::Ending { leaving, until } => {
                (*leaving, *until) = (Leaving::Gone, rest);
                Timer::ResultGrace
            }
            State::Running => {
                self.state = State::Ending {
                    leaving: Leaving::Gone,
                    until: rest,
                };
                Timer::ResultGrace
            }
            _ => return vec![],
        };
        vec![schedule(timer, rest)]
    }

    fn on_ended(&mut self, exit: Option<i32>, now: Moment) -> Vec<Effect> {
        let end = self.end_with(exit);
        match (&end, self.attempt) {
            (End::Failed(Failure::SessionLost), Attempt::First) if self.facts.resumes => {
                self.restart(Attempt::Renewed, Effect::RenewSession, now)
            }
            (End::Failed(Failure::SessionTaken), Attempt::First) if !self.facts.resumes => {
                self.restart(Attempt::Resumed, Effect::ResumeSession, now)
            }
            _ => self.finish(end, now),
        }
    }

    fn restart(&mut self, attempt: Attempt, remedy: Effect, now: Moment) -> Vec<Effect> {
        self.earlier = self.reported().unwrap_or(self.earlier);
        self.work = Work::default();
        self.attempt = attempt;
        self.session_kept = false;
        // They were told to the run before: to this one nobody told them yet.
        self.untaken.clear();
        self.is_idle = false;
        self.complaint.clear();
        self.state = State::Starting { stop: None };
        self.heard = now;
        let mut effects = vec![remedy, Effect::Start, Effect::ShowLive];
        effects.extend(self.clocks(now));
        effects
    }

    /// Tells how a run ended that left this exit code, if any.
    fn end_with(&self, exit: Option<i32>) -> End {
        if let Some(why) = self.stopping() {
            return End::Stopped(why);
        }
        match end::of(&self.work, exit, &self.complaint) {
            // The agent was told so by the meter and ended by itself, before the meter's own word came here.
            End::Failed(Failure::LimitReached) => {
                End::Stopped(Stop::Limit(self.hold.unwrap_or_default()))
            }
            end => end,
        }
    }

    fn cost_reported(&self) -> Usd {
        let reported = self.work.result().map(|result| result.total_cost);
        let believed = reported.filter(|_| !self.reports_nonsense());
        self.earlier + believed.unwrap_or_default()
    }

    /// Returns whether the agent's total is so large that it says nothing of what the turn cost.
    fn reports_nonsense(&self) -> bool {
        let most = self.hold.unwrap_or_default().max(SMALL_HOLD).0;
        let most = Usd(most.saturating_mul(MOST_HOLDS));
        self.work
            .result()
            .is_some_and(|result| result.total_cost > most)
    }

    // ---- Time

    fn on_timer(&mut self, timer: Timer, now: Moment) -> Vec<Effect> {
        match timer {
            Timer::Tick => self.on_tick(now),
            Timer::WallClock => self.on_wall_clock(now),
            Timer::Silence => self.on_silence(now),
            Timer::StopGrace | Timer::ResultGrace => self.on_grace(timer, now),
            Timer::AwayLimit => self.on_away_limit(now),
        }
    }

    fn on_tick(&mut self, now: Moment) -> Vec<Effect> {
        if matches!(self.state, State::Admitting { .. }) {
            return vec![];
        }
        vec![
            Effect::ShowLive,
            schedule(Timer::Tick, now + self.tick(now)),
        ]
    }

    fn on_wall_clock(&mut self, now: Moment) -> Vec<Effect> {
        match self.state {
            _ if now < self.time_up() => vec![schedule(Timer::WallClock, self.time_up())],
            State::Starting { .. } | State::Running => self.stop(Stop::TimeUp, now),
            _ => vec![],
        }
    }

    /// Nothing can be heard while the sandbox is away, and a tool that works says nothing (measured).
    fn on_silence(&mut self, now: Moment) -> Vec<Effect> {
        if !matches!(self.state, State::Starting { .. } | State::Running) {
            return vec![];
        }
        let silence = self.facts.limits.silence;
        let due = self.heard + silence;
        if now < due {
            vec![schedule(Timer::Silence, due)]
        } else if self.away.is_some()
            || self.work.has_open_step()
            || matches!(self.state, State::Starting { .. })
        {
            vec![schedule(Timer::Silence, now + silence)]
        } else {
            self.stop(Stop::Silent, now)
        }
    }

    fn on_grace(&mut self, timer: Timer, now: Moment) -> Vec<Effect> {
        let away = self.away.is_some();
        let grace = self.facts.limits.grace;
        let (leaving, until) = match (&mut self.state, timer) {
            (State::Stopping { leaving, until, .. }, Timer::StopGrace)
            | (State::Ending { leaving, until }, Timer::ResultGrace) => (leaving, until),
            _ => return vec![],
        };
        if away {
            // Neither a goodbye nor a kill gets through; the limit on being away ends this.
            *until = (*until).max(now + grace);
        }
        match *leaving {
            _ if now < *until => vec![schedule(timer, *until)],
            Leaving::Waiting => {
                (*leaving, *until) = (Leaving::Killing, now + KILL_PATIENCE);
                vec![Effect::Kill, schedule(timer, *until)]
            }
            Leaving::Killing => {
                let text = format!("turn {} could not be killed in time", self.facts.id);
                let mut effects = vec![Effect::Alarm(text)];
                effects.extend(self.give_up_waiting(now));
                effects
            }
            Leaving::Gone => self.give_up_waiting(now),
        }
    }

    fn give_up_waiting(&mut self, now: Moment) -> Vec<Effect> {
        let end = self.end_with(None);
        self.finish(end, now)
    }

    fn go_away(&mut self, now: Moment) -> Vec<Effect> {
        if self.away.is_some() || matches!(self.state, State::Admitting { .. }) {
            return vec![];
        }
        self.away = Some(now);
        vec![
            Effect::ShowLive,
            schedule(Timer::AwayLimit, now + AWAY_LIMIT),
        ]
    }

    fn come_back(&mut self, now: Moment) -> Vec<Effect> {
        if self.away.take().is_none() {
            return vec![];
        }
        self.heard = now;
        vec![Effect::ShowLive]
    }

    fn on_away_limit(&mut self, now: Moment) -> Vec<Effect> {
        let Some(since) = self.away else {
            return vec![];
        };
        let due = since + AWAY_LIMIT;
        if now < due {
            return vec![schedule(Timer::AwayLimit, due)];
        }
        let end = match (&self.state, self.stopping(), self.work.result()) {
            (_, Some(why), _) => End::Stopped(why),
            (State::Starting { .. }, None, _) => End::NotStarted(Trouble::SandboxAway),
            (_, None, Some(_)) => self.end_with(None),
            (_, None, None) => End::SandboxLost,
        };
        if self.is_worth_collecting(&end) {
            self.collected.failed = Some("the sandbox is away".to_owned());
        }
        // Whatever still runs there must not meet the chat's next turn: one run per session at a time.
        let mut effects = vec![Effect::Kill];
        effects.extend(self.close_with(end, Closing::Settling, now));
        effects
    }

    fn time_up(&self) -> Moment {
        self.facts.at + self.facts.limits.turn_time
    }

    fn tick(&self, now: Moment) -> Duration {
        if now.since(self.facts.at) < SLOW_AFTER {
            TICK
        } else {
            SLOW_TICK
        }
    }

    // ---- After the end

    fn finish(&mut self, end: End, now: Moment) -> Vec<Effect> {
        let stage = if self.is_worth_collecting(&end) {
            Closing::Collecting
        } else {
            Closing::Settling
        };
        self.close_with(end, stage, now)
    }

    fn close_with(&mut self, end: End, stage: Closing, now: Moment) -> Vec<Effect> {
        let mut effects: Vec<Effect> = alarm::of(&end, &self.complaint)
            .map(Effect::Alarm)
            .into_iter()
            .collect();
        if self.reports_nonsense() {
            let id = self.facts.id;
            effects.push(Effect::Alarm(format!(
                "the agent of turn {id} reports a cost that cannot be: its own total is not believed"
            )));
        }
        self.state = State::Closing {
            stage,
            end,
            at: now,
        };
        if stage == Closing::Collecting {
            effects.extend([Effect::ShowLive, Effect::Collect]);
        } else {
            effects.push(self.settle());
        }
        effects
    }

    /// Nothing is fetched where there is nothing, nobody to read it, or no reason to trust it. A sandbox that is away is
    /// waited for.
    fn is_worth_collecting(&self, end: &End) -> bool {
        let ran = matches!(
            self.state,
            State::Running | State::Stopping { .. } | State::Ending { .. }
        );
        let trusted = !matches!(
            end,
            End::Refused(_)
                | End::NotStarted(_)
                | End::SandboxLost
                | End::Stopped(Stop::ThreadGone | Stop::Revoked | Stop::WrongMode | Stop::Tampered)
        );
        ran && trusted
    }

    fn settle(&self) -> Effect {
        let (cost, estimated) = self.cost();
        Effect::Settle { cost, estimated }
    }

    fn close(&mut self, stage: Closing, event: Event) -> Vec<Effect> {
        match (stage, event) {
            (Closing::Over, _) => vec![],
            (_, Event::Metered { cost, estimated }) => self.meter(cost, estimated),
            (_, Event::Priced(cost)) => self.price(cost),
            (_, Event::Steered { id, .. }) => {
                self.untaken.push(id);
                vec![]
            }
            (Closing::Collecting, Event::Collected(collected)) => {
                self.collected = collected;
                self.go_on(Closing::Settling);
                vec![self.settle()]
            }
            (Closing::Settling, Event::Settled) => {
                self.go_on(Closing::Delivering);
                vec![Effect::Deliver]
            }
            (Closing::Delivering, Event::Delivered) => {
                self.go_on(Closing::Over);
                vec![Effect::Finish]
            }
            // Late news about a turn whose end is known.
            _ => vec![],
        }
    }

    fn go_on(&mut self, next: Closing) {
        if let State::Closing { stage, .. } = &mut self.state {
            *stage = next;
        }
    }
}

fn schedule(timer: Timer, at: Moment) -> Effect {
    Effect::Schedule { timer, at }
}

fn is_foul(why: Stop) -> bool {
    matches!(why, Stop::WrongMode | Stop::Tampered)
}

fn graver(first: Option<Stop>, next: Stop) -> Stop {
    match first {
        Some(first) if is_foul(first) || !is_foul(next) => first,
        _ => next,
    }
}

/// The CLI writes its session file only once the provider was asked (measured: killed before, there is none).
fn shows_a_session(told: &Told) -> bool {
    match told {
        Told::Text { .. } | Told::TextDelta(_) | Told::Thinking | Told::ToolStarted(_) => true,
        Told::Result(outcome) => !outcome.is_error,
        _ => false,
    }
}

fn deny(asked: PermissionAsked) -> Effect {
    let reason = if asked.tool == "AskUserQuestion" {
        NOBODY_TO_ASK.to_owned()
    } else {
        format!(
            "{} is not allowed here with this input. Stay within the directories and tools that you were given; if the \
             request cannot be done without it, say so in your answer.",
            asked.tool
        )
    };
    Effect::Deny {
        request_id: asked.request_id,
        reason,
    }
}

#[cfg(test)]
mod tests;
