//! One request on its way to the provider and its answer on its way back, counted as it goes by.
//!
//! A passage is a task of its own, so that it goes on when the sandbox hangs up: an answer that nobody reads is still
//! paid for, and only its end tells how much. It ends early when the turn does, or when the hold is used up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::{Response, header};
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::account::{Count, End};
use super::answer::AnswerCounter;
use super::ask::Ask;
use super::forward::{Outgoing, answered, chain};
use super::leases::{Held, House, Telling};
use super::price::Price;
use super::refusal::Refusal;
use super::stream::StreamCounter;

/// How long the sandbox may take no bytes before it counts as gone.
const STALL: Duration = Duration::from_secs(120);

/// Pieces of an answer that wait for the sandbox; the provider waits when there are more.
const WAITING: usize = 2;

/// The body of everything that the meter answers.
pub(super) type Body = UnsyncBoxBody<Bytes, Broken>;

/// An answer was cut. Ends the connection, so that nobody takes the piece for the whole.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer was cut")]
pub(super) struct Broken;

/// What a request takes up while it is open.
#[derive(Debug)]
pub(super) struct Takes {
    /// Its seat, given back when the passage ends.
    pub(super) _seat: OwnedSemaphorePermit,
    /// The room of its body.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

/// A piece of an answer; `None`: it is complete.
type Piece = Option<Bytes>;

type Answer = Result<Response<Body>, Refusal>;

struct Passage {
    house: Arc<House>,
    held: Arc<Held>,
    /// Its number in the account; `None`: it costs nothing.
    id: Option<u64>,
    takes: Takes,
    told: (bool, bool),
}

/// Lets a request for an answer in and carries it over.
pub(super) async fn ask(
    house: &Arc<House>,
    held: &Arc<Held>,
    (ask, price): (&Ask, &Price),
    mut outgoing: Outgoing,
    takes: Takes,
) -> Answer {
    let (admitted, stored) = house.admit(held, ask, price)?;
    outgoing.body = ask.lowered(outgoing.body, admitted.output);
    // Nothing is awaited between the admission and the task that answers for it: a caller that goes away here would
    // leave the request open for ever.
    let passage = Passage::new(house, held, Some(admitted.id), takes);
    passage.start(outgoing, Some(stored)).await
}

/// Carries over a request that costs nothing.
pub(super) async fn free(
    house: &Arc<House>,
    held: &Arc<Held>,
    outgoing: Outgoing,
    takes: Takes,
) -> Answer {
    let passage = Passage::new(house, held, None, takes);
    passage.start(outgoing, None).await
}

impl Passage {
    fn new(house: &Arc<House>, held: &Arc<Held>, id: Option<u64>, takes: Takes) -> Passage {
        Passage {
            house: house.clone(),
            held: held.clone(),
            id,
            takes,
            told: (false, false),
        }
    }

    async fn start(self, outgoing: Outgoing, stored: Option<oneshot::Receiver<()>>) -> Answer {
        let (head, answer) = oneshot::channel();
        let tracker = self.house.tracker.clone();
        tracker.spawn(self.run(outgoing, stored, head));
        // The task ends without an answer only when the turn does.
        answer.await.unwrap_or(Err(Refusal::Over))
    }

    async fn run(
        mut self,
        outgoing: Outgoing,
        stored: Option<oneshot::Receiver<()>>,
        head: oneshot::Sender<Answer>,
    ) {
        if let Some(stored) = stored {
            let is_stored = self.unless_cut(stored).await;
            if !matches!(is_stored, Some(Ok(()))) {
                self.end(End::Free);
                let refusal = is_stored.map_or(Refusal::Over, |_| Refusal::NotStored);
                let _ = head.send(Err(refusal));
                return;
            }
        }
        let (house, began) = (self.house.clone(), Instant::now());
        let answer = self.unless_cut(house.provider.send(outgoing)).await;
        self.takes.room = None;
        metrics::histogram!("innkeeper_meter_request_seconds").record(began.elapsed());
        match answer {
            None => self.end(End::Answered(Count::default())),
            Some(Err(error)) => {
                self.fail(&error);
                let _ = head.send(Err(Refusal::Unreachable));
            }
            Some(Ok(answer)) => self.carry(answer, head).await,
        }
    }

    /// Carries an answer over whose head is there.
    async fn carry(mut self, answer: reqwest::Response, head: oneshot::Sender<Answer>) {
        let status = answer.status();
        self.house.note_status(status);
        if status.is_server_error() {
            metrics::counter!("innkeeper_meter_failures_total").increment(1);
        }
        let is_paid = status.is_success();
        if !is_paid {
            self.end(End::Free);
        }
        if status.is_redirection() {
            tracing::warn!(%status, "the provider's address redirects (provider.base_url): not followed");
            let _ = head.send(Err(Refusal::Unreachable));
            return;
        }
        let mut counter = Counter::of(answer.headers());
        let (pieces, body) = body();
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = answered(answer.headers());
        let _ = head.send(Ok(response));
        let complete = self.pump(answer, &mut counter, &pieces).await;
        if is_paid {
            self.end(End::Answered(counter.count()));
        }
        if complete {
            self.unless_cut(timeout(STALL, pieces.send(None))).await;
        }
    }

    /// Passes pieces on until the answer ends; returns whether it came to its end.
    async fn pump(
        &mut self,
        answer: reqwest::Response,
        counter: &mut Counter,
        pieces: &mpsc::Sender<Piece>,
    ) -> bool {
        let mut incoming = answer.bytes_stream();
        let mut is_read = true;
        loop {
            match self.unless_cut(incoming.next()).await {
                Some(Some(Ok(bytes))) => {
                    counter.take(&bytes);
                    self.note(counter.count());
                    if is_read {
                        let sent = self
                            .unless_cut(timeout(STALL, pieces.send(Some(bytes))))
                            .await;
                        is_read = matches!(sent, Some(Ok(Ok(()))));
                    }
                }
                Some(Some(Err(error))) => {
                    tracing::warn!(error = %error.without_url(), "an answer of the provider broke off");
                    return false;
                }
                Some(None) => return true,
                None => return false,
            }
        }
    }

    fn note(&mut self, count: Count) {
        let Some(id) = self.id else {
            return;
        };
        let known = (count.input_known, count.complete);
        let telling = if known == self.told {
            Telling::Nothing
        } else {
            Telling::News
        };
        self.told = known;
        self.house.progress(&self.held, id, count, telling);
    }

    /// Ends the request after the provider could not be reached or hung up without a word.
    fn fail(&self, error: &reqwest::Error) {
        metrics::counter!("innkeeper_meter_failures_total").increment(1);
        let address = self.house.provider.shown();
        tracing::warn!(address, error = chain(error), "the provider gave no answer");
        self.end(if error.is_connect() {
            End::Free
        } else {
            End::Answered(Count::default())
        });
    }

    fn end(&self, end: End) {
        if let Some(id) = self.id {
            self.house.end(&self.held, id, end);
        }
    }

    /// Waits for something; `None`: the turn ended meanwhile, or its hold is used up.
    async fn unless_cut<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.held.cut.cancelled() => None,
            result = what => Some(result),
        }
    }
}

/// Counts whichever kind of answer it is.
enum Counter {
    Stream(StreamCounter),
    Whole(AnswerCounter),
}

impl Counter {
    fn of(headers: &http::HeaderMap) -> Counter {
        let kind = headers
            .get(header::CONTENT_TYPE)
            .map(|value| value.as_bytes());
        if kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) {
            Counter::Stream(StreamCounter::default())
        } else {
            Counter::Whole(AnswerCounter::default())
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        match self {
            Counter::Stream(counter) => counter.take(bytes),
            Counter::Whole(counter) => counter.take(bytes),
        }
    }

    fn count(&self) -> Count {
        match self {
            Counter::Stream(counter) => counter.count(),
            Counter::Whole(counter) => counter.count(),
        }
    }
}

/// Returns a body and the way to fill it. A body that is dropped unfinished by its filler ends as [`Broken`].
fn body() -> (mpsc::Sender<Piece>, Body) {
    let (pieces, rest) = mpsc::channel(WAITING);
    (pieces, UnsyncBoxBody::new(StreamBody::new(frames(rest))))
}

fn frames(rest: mpsc::Receiver<Piece>) -> impl Stream<Item = Result<Frame<Bytes>, Broken>> {
    futures_util::stream::unfold(Some(rest), async |rest| {
        let mut rest = rest?;
        match rest.recv().await {
            Some(Some(bytes)) => Some((Ok(Frame::data(bytes)), Some(rest))),
            Some(None) => None,
            None => Some((Err(Broken), None)),
        }
    })
}
