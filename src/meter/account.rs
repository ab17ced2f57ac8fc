//! What one turn has spent, what its open requests may still spend, and whether another one fits. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::domain::ids::TurnId;
use crate::domain::money::Usd;

use super::ask::Ask;
use super::price::{Cost, Price};
use super::usage::Usage;

/// How long something is reckoned to be in the provider's cache after the request that last used it was let in. The
/// provider keeps it for five minutes at least.
const KEPT: Duration = Duration::from_secs(240);

/// Beginnings of requests that are remembered, of the main talk and of sub-agents.
const BEGINNINGS: usize = 32;

/// What must survive: enough to open the lease again with nothing lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The turn.
    pub turn: TurnId,
    /// What its ended requests cost, and what was counted before this lease.
    pub spent: Usd,
    /// The most that its open requests can cost within the hold: to be added to `spent`, as an estimate, by whoever
    /// opens the lease again after the meter died.
    pub open_worst: Usd,
    /// Whether `spent` holds an estimate.
    pub estimated: bool,
}

/// What a turn cost in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The sum of its requests, and what was counted before this lease.
    pub spent: Usd,
    /// Whether that holds an estimate: a request whose end was not seen.
    pub estimated: bool,
    /// How many requests were forwarded.
    pub requests: u64,
    /// What each model cost in this lease, by its full name; each rounded by itself.
    pub by_model: Vec<(String, Usd)>,
}

/// A request that was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    /// Its number within the lease.
    pub(super) id: u64,
    /// The most output tokens that it may ask for.
    pub(super) output: u64,
}

/// Whether a request is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is.
    Granted(Admitted),
    /// Not beside what is set aside for others that are open: it may fit when those are further.
    Later,
    /// No: it does not fit into what is left.
    UsedUp,
}

/// How far an answer is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// What the provider said, and beyond that what the bytes so far show of the output.
    pub(super) usage: Usage,
    /// Whether the provider told the input.
    pub(super) input_known: bool,
    /// Whether these are the provider's final numbers.
    pub(super) complete: bool,
}

/// Whether a turn may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Verdict {
    /// There is something left.
    GoOn,
    /// The hold is used up: cut what is open. Nothing more is let in.
    UsedUp,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The provider answered with an error, or was never reached: it costs nothing.
    Free,
    /// The answer ended, or was cut, at this count.
    Answered(Count),
}

/// The account of one lease.
#[derive(Debug)]
pub(super) struct Account {
    turn: TurnId,
    hold: Cost,
    /// What the ended requests cost, and what was counted before this lease.
    ended: Cost,
    estimated: bool,
    requests: u64,
    open: BTreeMap<u64, Request>,
    by_model: BTreeMap<String, Cost>,
    /// What the provider was seen to have in its cache, the newest last.
    cached: VecDeque<Cached>,
    /// Whether nothing more is let in: the hold was used up once, or the lease is closed.
    over: bool,
}

#[derive(Debug)]
struct Request {
    ask: Ask,
    price: Price,
    /// What its input is reckoned to cost.
    input: Cost,
    /// Output tokens asked for.
    output: u64,
    at: Instant,
    count: Count,
}

/// A beginning of requests to one model, known to be in the provider's cache.
#[derive(Debug)]
struct Cached {
    model: String,
    /// See [`Beginning::name`](super::prompt::Beginning::name).
    name: u64,
    /// How many tokens it has.
    tokens: u64,
    at: Instant,
}

impl Account {
    /// Returns the account of a turn that may spend `hold` and has spent `spent` already.
    pub(super) fn new(turn: TurnId, hold: Usd, spent: Usd, estimated: bool) -> Account {
        Account {
            turn,
            hold: hold.into(),
            ended: spent.into(),
            estimated,
            requests: 0,
            open: BTreeMap::new(),
            by_model: BTreeMap::new(),
            cached: VecDeque::new(),
            over: false,
        }
    }

    /// Lets a request in if its input, its searches and a short answer fit into what is left beside all that the other open
    /// ones have used or set aside.
    pub(super) fn admit(&mut self, ask: &Ask, price: &Price, now: Instant) -> Admission {
        let Some((input, output)) = self.fit(ask, price, now) else {
            let used = self.ended + self.open.values().map(Request::used).sum();
            let alone = self.input_cost(ask, price, ask.max_tokens, now) + ask.extras(price);
            let may_fit = !self.over && !self.open.is_empty() && used + alone <= self.hold;
            return match may_fit {
                true => Admission::Later,
                false => Admission::UsedUp,
            };
        };
        self.requests += 1;
        let request = Request {
            ask: ask.clone(),
            price: *price,
            input,
            output,
            at: now,
            count: Count::default(),
        };
        self.open.insert(self.requests, request);
        Admission::Granted(Admitted {
            id: self.requests,
            output,
        })
    }

    /// Returns what the input of a request costs, as reckoned, and the output that may be asked for, if that fits.
    fn fit(&self, ask: &Ask, price: &Price, now: Instant) -> Option<(Cost, u64)> {
        let left = self.hold.less(self.counted());
        let try_with = |input: Cost| {
            let fits = !self.over && input + ask.extras(price) <= left;
            let rest = left.less(input + Cost::searches(ask.searches));
            // What is not seen until it is whole is set aside whole: others must find something beside it.
            let share = match ask.streamed {
                true => rest,
                false => rest.half(),
            };
            let output = share.buys(price.output).max(ask.least_output());
            fits.then_some((input, output.min(ask.max_tokens)))
        };
        let (input, output) = try_with(self.input_cost(ask, price, ask.max_tokens, now))?;
        // A lowered thinking budget makes another request of it, which the cache may not know.
        let lowered = self.input_cost(ask, price, output, now);
        if lowered > input {
            return try_with(lowered);
        }
        Some((input, output))
    }

    /// Returns what the input of a request costs if at most `output` tokens are asked for, as reckoned: what this turn has
    /// seen to be in the cache is read from there.
    fn input_cost(&self, ask: &Ask, price: &Price, output: u64, now: Instant) -> Cost {
        let whole = ask.input_cost(price);
        let known = |name: u64| {
            self.cached.iter().rev().find(|cached| {
                cached.name == name
                    && cached.model == ask.model
                    && now.saturating_duration_since(cached.at) < KEPT
            })
        };
        let found = ask
            .prompt
            .looked_up(ask.budget(output))
            .find_map(|beginning| Some((known(beginning.name)?.tokens, beginning.rest)));
        found.map_or(whole, |(cached, rest)| {
            let dearest = ask.prompt.dearest(price);
            whole.min(Cost::of(cached, price.cache_read) + Cost::of(rest, dearest))
        })
    }

    /// Notes how far an answer has come.
    pub(super) fn progress(&mut self, id: u64, count: Count) -> Verdict {
        if let Some(request) = self.open.get_mut(&id) {
            request.count = count;
        }
        if self.counted() <= self.hold {
            return Verdict::GoOn;
        }
        self.over = true;
        // An answer that is complete is paid for: cutting off its last bytes would only lose it.
        if self.open.values().any(|request| !request.count.complete) {
            Verdict::UsedUp
        } else {
            Verdict::GoOn
        }
    }

    /// Ends a request; returns whether it was open: one that has ended already, or whose lease was closed, changes
    /// nothing.
    pub(super) fn end(&mut self, id: u64, end: End) -> bool {
        let Some(mut request) = self.open.remove(&id) else {
            return false;
        };
        if let End::Answered(count) = end {
            request.count = count;
            self.book(&request);
            self.remember(&request);
        }
        true
    }

    /// Remembers what the provider has in its cache after a request.
    fn remember(&mut self, request: &Request) {
        let Request { ask, count, .. } = request;
        let tokens = count.usage.cache_read + count.usage.cache_write;
        let kept = ask.prompt.kept(ask.budget(request.output));
        let Some(kept) = kept.filter(|_| count.complete && tokens > 0) else {
            return;
        };
        if self.cached.len() == BEGINNINGS {
            self.cached.pop_front();
        }
        self.cached.push_back(Cached {
            model: ask.model.clone(),
            name: kept.name,
            tokens,
            at: request.at,
        });
    }

    /// Ends all open requests as far as they are counted, and tells what the turn cost.
    pub(super) fn close(&mut self) -> Closed {
        self.over = true;
        for request in std::mem::take(&mut self.open).into_values() {
            self.book(&request);
        }
        let rounded = |(model, cost): (&String, &Cost)| (model.clone(), cost.round());
        Closed {
            spent: self.ended.round(),
            estimated: self.estimated,
            requests: self.requests,
            by_model: self.by_model.iter().map(rounded).collect(),
        }
    }

    /// Returns what must survive now.
    pub(super) fn charge(&self) -> Charge {
        let counted = self.counted().less(self.ended);
        let worst: Cost = self.open.values().map(Request::worst).sum();
        Charge {
            turn: self.turn,
            spent: self.ended.round(),
            open_worst: worst.min(self.hold.less(self.ended)).max(counted).round(),
            estimated: self.estimated,
        }
    }

    /// Returns what the ended requests cost, and what the open ones have used and have set aside.
    fn counted(&self) -> Cost {
        self.ended + self.open.values().map(Request::least).sum()
    }

    fn book(&mut self, request: &Request) {
        let cost = request.cost();
        self.ended = self.ended + cost;
        self.estimated |= !request.count.complete || request.count.usage.unpriced;
        let of_model = self.by_model.entry(request.ask.model.clone()).or_default();
        *of_model = *of_model + cost;
    }
}

impl Request {
    /// Returns what it has used and what is set aside for it.
    fn least(&self) -> Cost {
        let Count { complete, .. } = self.count;
        if complete {
            return self.cost();
        }
        let mut count = self.count;
        let usage = &mut count.usage;
        usage.web_searches = usage.web_searches.max(self.ask.searches);
        if !self.ask.streamed {
            usage.output = self.output;
        } else if !count.input_known {
            usage.output = usage.output.max(self.ask.least_output());
        }
        self.cost_at(count)
    }

    /// Returns what it is known to have used.
    fn used(&self) -> Cost {
        match self.count.input_known {
            true => self.cost(),
            false => Cost::ZERO,
        }
    }

    /// Returns what it costs if it ends as far as it is counted.
    fn cost(&self) -> Cost {
        self.cost_at(self.count)
    }

    fn cost_at(&self, count: Count) -> Cost {
        let Count {
            mut usage,
            input_known,
            complete,
        } = count;
        if !complete {
            usage.output = usage.output.min(self.output);
        }
        let input = if input_known { Cost::ZERO } else { self.input };
        input + self.price.cost(&usage)
    }

    /// Returns the most that it can cost, as far as is known.
    fn worst(&self) -> Cost {
        let Count {
            usage,
            input_known,
            complete,
        } = self.count;
        if complete {
            return self.cost();
        }
        let output = Cost::of(self.output, self.price.output);
        let most = Cost::of(self.ask.most_input(), self.price.dearest_input())
            + Cost::searches(self.ask.searches);
        if input_known && !self.ask.reads_web() {
            self.price.cost(&Usage { output: 0, ..usage }) + output
        } else {
            most + output
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    /// One micro-dollar for a token of input, five for one of output: easy sums.
    const PRICE: Price = Price {
        input: Usd(1_000_000),
        output: Usd(5_000_000),
        cache_write: Usd(1_250_000),
        cache_write_1h: Usd(2_000_000),
        cache_read: Usd(100_000),
    };

    fn ask(max_tokens: u64, words: usize) -> Ask {
        ask_like(max_tokens, &[&"words ".repeat(words)], true)
    }

    /// Returns a request of which the last message is to be kept.
    fn ask_like(max_tokens: u64, messages: &[&str], streamed: bool) -> Ask {
        ask_marked(r#","cache_control":{}"#, max_tokens, messages, streamed)
    }

    fn ask_marked(mark: &str, max_tokens: u64, messages: &[&str], streamed: bool) -> Ask {
        let last = messages.len() - 1;
        let written = messages.iter().enumerate().map(|(index, text)| {
            let mark = if index == last { mark } else { "" };
            format!(r#"{{"content":[{{"text":"{text}"{mark}}}]}}"#)
        });
        let messages = written.collect::<Vec<_>>().join(",");
        let body = format!(
            r#"{{"model":"m","max_tokens":{max_tokens},"stream":{streamed},"messages":[{messages}]}}"#
        );
        Ask::read(body.as_bytes()).unwrap()
    }

    fn now() -> Instant {
        Instant::now()
    }

    fn granted(admission: Admission) -> Admitted {
        match admission {
            Admission::Granted(admitted) => admitted,
            other => panic!("{other:?}"),
        }
    }

    fn account(hold: u64) -> Account {
        Account::new(TurnId(1), Usd(hold), Usd::ZERO, false)
    }

    fn count(input: u64, output: u64, complete: bool) -> Count {
        let usage = Usage {
            input,
            output,
            ..Usage::default()
        };
        Count {
            usage,
            input_known: true,
            complete,
        }
    }

    #[test]
    fn the_sum_of_the_requests_is_what_the_turn_cost() {
        let mut account = account(1_000_000);
        for output in [10, 20, 30] {
            let admitted = granted(account.admit(&ask(1000, 10), &PRICE, now()));
            assert!(account.end(admitted.id, End::Answered(count(100, output, true))));
        }
        let closed = account.close();
        assert_eq!(closed.spent, Usd(3 * 100 + 5 * 60));
        assert_eq!(closed.by_model, [("m".to_owned(), closed.spent)]);
        assert_eq!((closed.requests, closed.estimated), (3, false));
    }

    #[test]
    fn a_provider_that_refuses_costs_nothing() {
        let mut account = account(1_000_000);
        let admitted = granted(account.admit(&ask(1000, 10), &PRICE, now()));
        account.end(admitted.id, End::Free);
        let closed = account.close();
        assert_eq!((closed.spent, closed.estimated), (Usd::ZERO, false));
    }

    #[test]
    fn an_end_that_comes_twice_or_after_the_close_changes_nothing() {
        let mut account = account(1_000_000);
        let first = granted(account.admit(&ask(1000, 10), &PRICE, now())).id;
        let late = granted(account.admit(&ask(1000, 10), &PRICE, now())).id;
        assert!(account.end(first, End::Answered(count(100, 0, true))));
        assert!(!account.end(first, End::Answered(count(100, 0, true))));
        assert_eq!(account.progress(late, count(7, 0, false)), Verdict::GoOn);
        let closed = account.close();
        assert!(!account.end(late, End::Answered(count(900, 900, true))));
        assert_eq!(account.close().spent, closed.spent);
        assert_eq!((closed.spent, closed.estimated), (Usd(107), true));
        assert_eq!(
            account.admit(&ask(1000, 10), &PRICE, now()),
            Admission::UsedUp
        );
    }

    #[test]
    fn the_output_is_lowered_to_what_is_left_beside_the_input() {
        let ask = ask(32_000, 0);
        let input = ask.input_cost(&PRICE).round().0;
        let output = |hold: u64| granted(account(hold).admit(&ask, &PRICE, now())).output;
        assert_eq!(output(1_000_000), 32_000);
        assert_eq!(output(50_000 + input), 10_000);
        assert_eq!(
            account(1_000 + input).admit(&ask, &PRICE, now()),
            Admission::UsedUp
        );
    }

    #[test]
    fn what_is_not_seen_before_it_is_whole_is_set_aside_whole_and_leaves_half() {
        let whole = ask_like(32_000, &[""], false);
        let input = whole.input_cost(&PRICE).round().0;
        let mut account = account(50_000 + input);
        let first = granted(account.admit(&whole, &PRICE, now()));
        assert_eq!(first.output, 5_000);
        assert_eq!(account.counted().round(), Usd(input + 5 * first.output));
        let second = granted(account.admit(&whole, &PRICE, now()));
        assert!(second.output < 2_500, "{second:?}");
    }

    #[test]
    fn open_requests_share_the_hold_and_one_too_many_comes_back_later() {
        let ask = ask(256, 0);
        let one = ask.input_cost(&PRICE) + ask.extras(&PRICE);
        let mut account = account(one.times(3).round().0 + 100);
        let mut open = Vec::new();
        for _ in 0..3 {
            open.push(granted(account.admit(&ask, &PRICE, now())));
        }
        assert_eq!(account.admit(&ask, &PRICE, now()), Admission::Later);
        account.end(open[0].id, End::Free);
        let again = granted(account.admit(&ask, &PRICE, now()));
        // Once the money is really gone, no waiting helps.
        for id in [open[1].id, open[2].id, again.id] {
            account.end(id, End::Answered(count(400, 200, true)));
        }
        assert_eq!(account.admit(&ask, &PRICE, now()), Admission::UsedUp);
    }

    #[test]
    fn what_was_seen_to_be_in_the_cache_is_reckoned_as_read_from_there() {
        let began = now();
        let long = "words ".repeat(20_000);
        let mut account = account(100_000);
        let id = granted(account.admit(&ask_like(1000, &[&long], true), &PRICE, began)).id;
        let mut seen = count(10, 20, true);
        (seen.usage.cache_write, seen.usage.cache_read) = (30_000, 1_000);
        account.end(id, End::Answered(seen));
        let next = ask_like(1000, &[&long, "and then"], true);
        let cost = |account: &Account, ask: &Ask, at| {
            account.input_cost(ask, &PRICE, ask.max_tokens, at).round()
        };
        let cached = cost(&account, &next, began);
        assert!(
            cached > Usd(3_100) && cached < Usd(3_100 + 700),
            "{cached:?}"
        );
        let fresh = next.input_cost(&PRICE).round();
        assert!(fresh > Usd(50_000));
        assert_eq!(cost(&account, &next, began + KEPT), fresh);
        for (index, letter) in [(0, "W"), (1, "X")] {
            let mut messages = [long.clone(), "and then".to_owned()];
            messages[index].replace_range(0..1, letter);
            let other = ask_like(1000, &[&messages[0], &messages[1]], true);
            let is_known = cost(&account, &other, began) < Usd(10_000);
            assert_eq!(is_known, index == 1, "{index}");
        }
    }

    #[test]
    fn a_thinking_budget_that_must_be_lowered_loses_what_the_cache_knows() {
        let long = "words ".repeat(20_000);
        let with_budget = |messages: &[&str]| {
            let body = format!(
                r#"{{"model":"m","max_tokens":32000,"stream":true,"thinking":{{"budget_tokens":31999}},"messages":[{}]}}"#,
                messages
                    .iter()
                    .map(|text| format!(
                        r#"{{"content":[{{"text":"{text}","cache_control":{{}}}}]}}"#
                    ))
                    .collect::<Vec<_>>()
                    .join(",")
            );
            Ask::read(body.as_bytes()).unwrap()
        };
        let mut account = account(300_000);
        let first = with_budget(&[&long]);
        let id = granted(account.admit(&first, &PRICE, now())).id;
        let mut seen = count(10, 20, true);
        seen.usage.cache_write = 30_000;
        account.end(id, End::Answered(seen));
        let next = with_budget(&[&long, "and then"]);
        let (input, output) = account.fit(&next, &PRICE, now()).unwrap();
        assert_eq!((input < Cost::from(Usd(10_000)), output), (true, 32_000));
        account.ended = Cost::from(Usd(150_000));
        let (input, output) = account.fit(&next, &PRICE, now()).unwrap();
        assert_eq!(input, next.input_cost(&PRICE));
        assert!(output < 32_000);
        account.ended = Cost::from(Usd(290_000));
        assert_eq!(account.fit(&next, &PRICE, now()), None);
    }

    #[test]
    fn what_is_stored_for_an_open_request_is_its_worst_within_the_hold_and_then_less() {
        let mut account = account(100_000);
        let id = granted(account.admit(&ask(1000, 10), &PRICE, now())).id;
        assert_eq!(account.charge().open_worst, Usd(100_000));
        let _ = account.progress(id, count(100, 1, false));
        assert_eq!(account.charge().open_worst, Usd(100 + 5000));
        let _ = account.progress(id, count(100, 30, true));
        assert_eq!(account.charge().open_worst, Usd(250));
        account.end(id, End::Answered(count(100, 30, true)));
        let charge = account.charge();
        assert_eq!((charge.spent, charge.open_worst), (Usd(250), Usd::ZERO));
    }

    #[test]
    fn a_lease_opened_again_goes_on_from_what_was_spent() {
        let mut account = Account::new(TurnId(1), Usd(10_000), Usd(9_000), true);
        assert_eq!(
            account.admit(&ask(256, 0), &PRICE, now()),
            Admission::UsedUp
        );
        let closed = account.close();
        assert_eq!((closed.spent, closed.estimated), (Usd(9_000), true));
    }

    #[test]
    fn an_answer_that_never_began_costs_its_input_as_reckoned_and_is_an_estimate() {
        let mut account = account(1_000_000);
        let ask = ask(1000, 1000);
        let id = granted(account.admit(&ask, &PRICE, now())).id;
        account.end(id, End::Answered(Count::default()));
        let closed = account.close();
        assert_eq!(
            (closed.spent, closed.estimated),
            (ask.input_cost(&PRICE).round(), true)
        );
    }

    /// What a provider really does with one request, whatever the meter sees of it.
    #[derive(Debug)]
    struct Truth {
        id: u64,
        input: u64,
        made: u64,
        shown: u64,
        granted: u64,
        streamed: bool,
        begun: bool,
        /// Whether another one was ever open at the same time.
        shared: bool,
        /// Input beyond what it was reckoned to be, in money.
        beyond: Cost,
    }

    impl Truth {
        fn cost(&self) -> Cost {
            Cost::of(self.input, PRICE.input) + Cost::of(self.made, PRICE.output)
        }

        /// What this one may have cost beyond what was counted and set aside.
        fn allowance(&self) -> Cost {
            let unseen = match self.shared && self.streamed {
                true => self.granted,
                false => 0,
            };
            self.beyond + Cost::of(unseen, PRICE.output)
        }

        fn seen(&self, complete: bool) -> Count {
            let output = if complete { self.made } else { self.shown };
            let seen = count(self.input, output, complete);
            if self.streamed || complete {
                seen
            } else {
                Count::default()
            }
        }
    }

    /// Requests of every size, streamed and not, none of which is to be kept in the cache. To read one takes long.
    static ASKS: LazyLock<Vec<[Ask; 2]>> = LazyLock::new(|| {
        let of_size = |words: usize| {
            let text = "words ".repeat(words);
            [false, true].map(|streamed| ask_marked("", 1, &[&text], streamed))
        };
        [0, 100, 1_000, 3_000, 10_000, 30_000].map(of_size).into()
    });

    #[derive(Clone, Debug)]
    enum Step {
        Ask {
            size: usize,
            max_tokens: u64,
            /// Tokens really there, in hundredths of those that were reckoned.
            truth: u64,
            streamed: bool,
        },
        Begin(usize),
        Make(usize, u64),
        Show(usize),
        Finish(usize),
    }

    fn steps(truth: std::ops::Range<u64>) -> impl Strategy<Value = Vec<Step>> {
        let any_open = 0_usize..8;
        let step = prop_oneof![
            2 => (0..ASKS.len(), 1_u64..40_000, truth, prop::bool::weighted(0.8)).prop_map(
                |(size, max_tokens, truth, streamed)| Step::Ask { size, max_tokens, truth, streamed }
            ),
            3 => any_open.clone().prop_map(Step::Begin),
            4 => (any_open.clone(), 1_u64..20_000).prop_map(|(which, tokens)| Step::Make(which, tokens)),
            3 => any_open.clone().prop_map(Step::Show),
            2 => any_open.prop_map(Step::Finish),
        ];
        prop::collection::vec(step, 0..120)
    }

    /// A turn, its provider, and what both say.
    struct Play {
        account: Account,
        seats: usize,
        open: Vec<Truth>,
        paid: Cost,
        over: bool,
        most_excess: Cost,
    }

    impl Play {
        fn new(hold: u64, seats: usize) -> Play {
            Play {
                account: account(hold),
                seats,
                open: Vec::new(),
                paid: Cost::ZERO,
                over: false,
                most_excess: Cost::ZERO,
            }
        }

        /// Plays to the end; returns what was really paid and what may have been paid beyond the hold.
        fn play_all(mut self, steps: Vec<Step>) -> (Cost, Cost) {
            for step in steps {
                if self.over {
                    break;
                }
                self.play(step);
            }
            let open: Cost = self.open.iter().map(Truth::allowance).sum();
            let paid = self.paid + self.open.iter().map(Truth::cost).sum();
            (paid, self.most_excess + open)
        }

        fn play(&mut self, step: Step) {
            match step {
                Step::Ask {
                    size,
                    max_tokens,
                    truth,
                    streamed,
                } => {
                    let mut ask = ASKS[size][usize::from(streamed)].clone();
                    ask.max_tokens = max_tokens;
                    let input = ask.prompt.tokens() * truth / 100;
                    self.ask(&ask, input);
                }
                Step::Begin(which) => self.with(which, |truth| truth.begun = true),
                Step::Make(which, tokens) => self.with(which, |truth| {
                    if truth.begun {
                        truth.made = (truth.made + tokens).min(truth.granted);
                    }
                }),
                Step::Show(which) => self.with(which, |truth| truth.shown = truth.made),
                Step::Finish(which) => self.finish(which),
            }
        }

        fn ask(&mut self, ask: &Ask, input: u64) {
            if self.open.len() >= self.seats {
                return;
            }
            let Admission::Granted(Admitted { id, output }) =
                self.account.admit(ask, &PRICE, now())
            else {
                return;
            };
            let reckoned = self.account.open[&id].input;
            self.open.push(Truth {
                id,
                input,
                made: 0,
                shown: 0,
                granted: output,
                streamed: ask.streamed,
                begun: false,
                shared: false,
                beyond: Cost::of(input, PRICE.input).less(reckoned),
            });
            let shared = self.open.len() > 1;
            self.open
                .iter_mut()
                .for_each(|truth| truth.shared |= shared);
        }

        fn with(&mut self, which: usize, change: impl FnOnce(&mut Truth)) {
            let Some(truth) = self.open.get_mut(which) else {
                return;
            };
            change(truth);
            let (id, seen) = (truth.id, truth.seen(false));
            if truth.begun && self.account.progress(id, seen) == Verdict::UsedUp {
                self.cut();
            }
        }

        fn finish(&mut self, which: usize) {
            if which >= self.open.len() || !self.open[which].begun {
                return;
            }
            let truth = self.open.remove(which);
            let verdict = self.account.progress(truth.id, truth.seen(true));
            self.account.end(truth.id, End::Answered(truth.seen(true)));
            self.paid = self.paid + truth.cost();
            if verdict == Verdict::UsedUp {
                self.cut();
            }
            if self.account.over {
                self.over = true;
                self.most_excess = self.most_excess + truth.allowance();
            }
        }

        /// The hold is used up: everything that is open ends, and the provider stops making.
        fn cut(&mut self) {
            self.over = true;
            self.most_excess = self.open.iter().map(Truth::allowance).sum();
            for truth in std::mem::take(&mut self.open) {
                self.paid = self.paid + truth.cost();
                let seen = match truth.begun {
                    true => truth.seen(false),
                    false => Count::default(),
                };
                self.account.end(truth.id, End::Answered(seen));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_order_of_events_makes_a_turn_exceed_its_hold_by_more_than_is_stated(
            hold in 0_u64..300_000,
            steps in steps(0..300),
        ) {
            let (paid, allowed) = Play::new(hold, 8).play_all(steps);
            prop_assert!(paid <= Cost::from(Usd(hold)) + allowed, "{paid:?} {allowed:?}");
        }

        #[test]
        fn one_request_after_the_other_with_input_as_reckoned_never_exceeds_the_hold(
            hold in 0_u64..300_000,
            steps in steps(0..101),
        ) {
            let (paid, _) = Play::new(hold, 1).play_all(steps);
            prop_assert!(paid <= Cost::from(Usd(hold)), "{paid:?}");
        }
    }
}
