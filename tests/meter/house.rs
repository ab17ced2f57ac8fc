//! A meter with somebody who stores what it tells.

use innkeeper::domain::ids::TurnId;
use innkeeper::domain::money::Usd;
use innkeeper::meter::{Charge, Lease, Meter, MeterEvent, Opened, Prices, Settings};
use secrecy::ExposeSecret as _;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) const KEY: &str = "sk-the-real-key";

/// What a meter told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Opening(Charge),
    Charged(Charge),
    Limit(TurnId),
    KeyRefused,
}

pub(crate) struct House {
    pub(crate) meter: Meter,
    pub(crate) tracker: TaskTracker,
    pub(crate) stop: CancellationToken,
    pub(crate) told: watch::Receiver<Vec<Told>>,
}

impl House {
    /// Starts a meter in front of `upstream`; everything it tells is stored at once.
    pub(crate) async fn start(upstream: &str) -> House {
        House::start_with(upstream, |_| true).await
    }

    /// Likewise, storing only what `stores` says.
    pub(crate) async fn start_with(
        upstream: &str,
        stores: impl Fn(&Charge) -> bool + Send + 'static,
    ) -> House {
        let (events, mut coming) = mpsc::unbounded_channel();
        let (telling, told) = watch::channel(Vec::new());
        tokio::spawn(async move {
            while let Some(event) = coming.recv().await {
                let (news, stored) = match event {
                    MeterEvent::Opening { charge, stored } => {
                        let stored = stores(&charge).then_some(stored);
                        (Told::Opening(charge), stored)
                    }
                    MeterEvent::Charged(charge) => (Told::Charged(charge), None),
                    MeterEvent::LimitReached { turn } => (Told::Limit(turn), None),
                    MeterEvent::ProviderRefusesKey => (Told::KeyRefused, None),
                };
                telling.send_modify(|all| all.push(news));
                if let Some(stored) = stored {
                    let _ = stored.send(());
                }
            }
        });
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let settings = Settings {
            listen: ([127, 0, 0, 1], 0).into(),
            upstream: upstream.parse().unwrap(),
            key: KEY.into(),
            prices: Prices::default(),
        };
        let meter = Meter::start(settings, tracker.clone(), stop.clone(), events)
            .await
            .unwrap();
        House {
            meter,
            tracker,
            stop,
            told,
        }
    }

    pub(crate) fn guest(&self, turn: u64, hold: Usd) -> Guest {
        let lease = lease(turn, hold);
        self.admit(&lease)
    }

    pub(crate) fn admit(&self, lease: &Lease) -> Guest {
        let Opened { token, path } = self.meter.open(lease.clone()).unwrap();
        Guest {
            turn: lease.turn,
            base: format!("http://{}{path}", self.meter.address()),
            token: token.expose_secret().to_owned(),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
        }
    }

    /// Waits until what was told passes.
    pub(crate) async fn hears(&mut self, passes: impl Fn(&[Told]) -> bool) -> Vec<Told> {
        self.told
            .wait_for(|told| passes(told))
            .await
            .unwrap()
            .clone()
    }

    /// Waits for the charge after which nothing is open.
    pub(crate) async fn settles(&mut self) -> Charge {
        let told = self
            .hears(|told| matches!(told.last(), Some(Told::Charged(charge)) if charge.open_worst == Usd::ZERO))
            .await;
        match told.last() {
            Some(Told::Charged(charge)) => *charge,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn lease(turn: u64, hold: Usd) -> Lease {
    Lease {
        turn: TurnId(turn),
        hold,
        spent: Usd::ZERO,
        estimated: false,
        families: Some(vec!["sonnet".into()]),
        token: None,
    }
}

/// What a turn knows.
#[derive(Clone)]
pub(crate) struct Guest {
    pub(crate) turn: TurnId,
    pub(crate) base: String,
    pub(crate) token: String,
    pub(crate) client: reqwest::Client,
}

pub(crate) const ASK: &str =
    r#"{"model":"claude-sonnet-5","max_tokens":1000,"stream":true,"messages":[]}"#;

impl Guest {
    pub(crate) fn post(
        &self,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> reqwest::RequestBuilder {
        self.client
            .post(format!("{}{path}", self.base))
            .bearer_auth(&self.token)
            .header("content-type", "application/json")
            .body(body)
    }

    /// Asks something in the background.
    pub(crate) fn asks(
        &self,
        body: impl Into<reqwest::Body>,
    ) -> tokio::task::JoinHandle<reqwest::Response> {
        let request = self.post("/v1/messages?beta=true", body);
        tokio::spawn(async move { request.send().await.unwrap() })
    }

    /// Asks something that the meter answers itself: status and body.
    pub(crate) async fn hears(&self, path: &str, body: impl Into<reqwest::Body>) -> (u16, String) {
        let answer = self.post(path, body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}
