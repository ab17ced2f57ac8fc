//! What one turn has spent, what its open requests may still spend, and whether another one fits. Pure.

use std::collections::BTreeMap;

use crate::domain::ids::TurnId;
use crate::domain::money::Usd;

use super::ask::Ask;
use super::price::{Cost, Price};
use super::usage::Usage;

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
    /// Whether nothing more is let in: the hold was used up once, or the lease is closed.
    over: bool,
}

#[derive(Debug)]
struct Request {
    ask: Ask,
    price: Price,
    /// Output tokens asked for.
    output: u64,
    count: Count,
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
            over: false,
        }
    }

    /// Lets a request in if its least cost fits into what is left beside the other open ones.
    pub(super) fn admit(&mut self, ask: &Ask, price: &Price) -> Option<Admitted> {
        let left = self.hold.less(self.counted());
        if self.over || ask.least_cost(price) > left {
            return None;
        }
        let output = left
            .less(ask.least_input_cost(price))
            .buys(price.output)
            .min(ask.max_tokens);
        self.requests += 1;
        let request = Request {
            ask: ask.clone(),
            price: *price,
            output,
            count: Count::default(),
        };
        self.open.insert(self.requests, request);
        Some(Admitted {
            id: self.requests,
            output,
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
        }
        true
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

    /// Returns what the ended requests cost and the open ones cost at least.
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
    /// Returns the least that it costs, as far as is known.
    fn least(&self) -> Cost {
        if self.count.input_known {
            self.cost()
        } else {
            self.ask.least_cost(&self.price)
        }
    }

    /// Returns what it costs if it ends as far as it is counted.
    fn cost(&self) -> Cost {
        let Count {
            mut usage,
            input_known,
            complete,
        } = self.count;
        if !complete {
            usage.output = usage.output.min(self.output);
        }
        if !input_known {
            usage.input = self.ask.usual_input();
        }
        self.price.cost(&usage)
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
        let words = "words ".repeat(words);
        let body = format!(r#"{{"model":"m","max_tokens":{max_tokens},"messages":"{words}"}}"#);
        Ask::read(body.as_bytes()).unwrap()
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
            let admitted = account.admit(&ask(1000, 10), &PRICE).unwrap();
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
        let admitted = account.admit(&ask(1000, 10), &PRICE).unwrap();
        account.end(admitted.id, End::Free);
        let closed = account.close();
        assert_eq!((closed.spent, closed.estimated), (Usd::ZERO, false));
    }

    #[test]
    fn an_end_that_comes_twice_or_after_the_close_changes_nothing() {
        let mut account = account(1_000_000);
        let first = account.admit(&ask(1000, 10), &PRICE).unwrap().id;
        let late = account.admit(&ask(1000, 10), &PRICE).unwrap().id;
        assert!(account.end(first, End::Answered(count(100, 0, true))));
        assert!(!account.end(first, End::Answered(count(100, 0, true))));
        assert_eq!(account.progress(late, count(7, 0, false)), Verdict::GoOn);
        let closed = account.close();
        assert!(!account.end(late, End::Answered(count(900, 900, true))));
        assert_eq!(account.close().spent, closed.spent);
        assert_eq!((closed.spent, closed.estimated), (Usd(107), true));
        assert_eq!(account.admit(&ask(1000, 10), &PRICE), None);
    }

    #[test]
    fn the_output_is_lowered_to_what_is_left() {
        let ask = ask(32_000, 0);
        let least_input = Cost::of(ask.least_input(), PRICE.cache_read);
        assert!(least_input.round() < Usd(5));
        assert_eq!(
            account(1_000_000).admit(&ask, &PRICE).unwrap().output,
            32_000
        );
        assert_eq!(account(50_000).admit(&ask, &PRICE).unwrap().output, 9_999);
        assert_eq!(account(1_000).admit(&ask, &PRICE), None);
    }

    #[test]
    fn open_requests_share_the_hold() {
        let mut account = account(3 * 256 * 5 + 100);
        let ask = ask(256, 0);
        for _ in 0..3 {
            account.admit(&ask, &PRICE).unwrap();
        }
        assert_eq!(account.admit(&ask, &PRICE), None);
    }

    #[test]
    fn what_is_stored_for_an_open_request_is_its_worst_within_the_hold_and_then_less() {
        let mut account = account(100_000);
        let id = account.admit(&ask(1000, 10), &PRICE).unwrap().id;
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
        assert_eq!(account.admit(&ask(256, 0), &PRICE), None);
        let closed = account.close();
        assert_eq!((closed.spent, closed.estimated), (Usd(9_000), true));
    }

    #[test]
    fn an_answer_that_never_began_costs_its_usual_input_and_is_an_estimate() {
        let mut account = account(1_000_000);
        let ask = ask(1000, 1000);
        let id = account.admit(&ask, &PRICE).unwrap().id;
        account.end(id, End::Answered(Count::default()));
        let closed = account.close();
        assert_eq!(
            (closed.spent, closed.estimated),
            (Usd(ask.usual_input()), true)
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
        begun: bool,
        /// Whether another one was ever open at the same time.
        shared: bool,
        /// Input beyond the least, in money.
        beyond: Cost,
    }

    impl Truth {
        fn cost(&self) -> Cost {
            Cost::of(self.input, PRICE.input) + Cost::of(self.made, PRICE.output)
        }

        /// What this one may have cost beyond what was counted.
        fn allowance(&self) -> Cost {
            let unseen = if self.shared { self.granted } else { 0 };
            self.beyond + Cost::of(unseen, PRICE.output)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Ask {
            words: usize,
            max_tokens: u64,
            input: u64,
        },
        Begin(usize),
        Make(usize, u64),
        Show(usize),
        Finish(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let any_open = 0_usize..8;
        prop_oneof![
            2 => (0_usize..3000, 1_u64..40_000, 0_u64..30_000)
                .prop_map(|(words, max_tokens, input)| Step::Ask { words, max_tokens, input }),
            3 => any_open.clone().prop_map(Step::Begin),
            4 => (any_open.clone(), 1_u64..20_000).prop_map(|(which, tokens)| Step::Make(which, tokens)),
            3 => any_open.clone().prop_map(Step::Show),
            2 => any_open.prop_map(Step::Finish),
        ]
    }

    /// A turn, its provider, and what both say.
    struct Play {
        account: Account,
        open: Vec<Truth>,
        paid: Cost,
        over: bool,
        most_excess: Cost,
    }

    impl Play {
        fn play(&mut self, step: Step) {
            match step {
                Step::Ask {
                    words,
                    max_tokens,
                    input,
                } => self.ask(&ask(max_tokens, words), input),
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
            let admitted = self
                .account
                .admit(ask, &PRICE)
                .filter(|_| self.open.len() < 8);
            let Some(Admitted { id, output }) = admitted else {
                return;
            };
            let least = ask.least_input_cost(&PRICE);
            let input = input.max(ask.least_input());
            self.open.push(Truth {
                id,
                input,
                made: 0,
                shown: 0,
                granted: output,
                begun: false,
                shared: false,
                beyond: Cost::of(input, PRICE.input).less(least),
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
            let seen = count(truth.input, truth.shown, false);
            let id = truth.id;
            if truth.begun && self.account.progress(id, seen) == Verdict::UsedUp {
                self.cut();
            }
        }

        fn finish(&mut self, which: usize) {
            if which >= self.open.len() || !self.open[which].begun {
                return;
            }
            let allowance = self.open[which].allowance();
            let truth = self.open.remove(which);
            let seen = count(truth.input, truth.made, true);
            let verdict = self.account.progress(truth.id, seen);
            self.account.end(truth.id, End::Answered(seen));
            self.paid = self.paid + truth.cost();
            if verdict == Verdict::UsedUp {
                self.cut();
            }
            if self.account.over {
                self.over = true;
                self.most_excess = self.most_excess + allowance;
            }
        }

        /// The hold is used up: everything that is open ends, and the provider stops making.
        fn cut(&mut self) {
            self.over = true;
            self.most_excess = self.open.iter().map(Truth::allowance).sum();
            for truth in std::mem::take(&mut self.open) {
                self.paid = self.paid + truth.cost();
                let seen = count(truth.input, truth.shown, false);
                let seen = if truth.begun { seen } else { Count::default() };
                self.account.end(truth.id, End::Answered(seen));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_order_of_events_makes_a_turn_exceed_its_hold_by_more_than_is_stated(
            hold in 0_u64..300_000,
            steps in prop::collection::vec(step(), 0..120),
        ) {
            let mut play = Play {
                account: account(hold),
                open: Vec::new(),
                paid: Cost::ZERO,
                over: false,
                most_excess: Cost::ZERO,
            };
            for step in steps {
                if play.over {
                    break;
                }
                play.play(step);
            }
            let open: Cost = play.open.iter().map(Truth::allowance).sum();
            let allowed = play.most_excess + open;
            let paid = play.paid + play.open.iter().map(Truth::cost).sum();
            prop_assert!(paid <= Cost::from(Usd(hold)) + allowed, "{paid:?} {allowed:?}");
        }
    }
}
