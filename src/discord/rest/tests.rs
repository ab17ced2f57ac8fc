use super::super::fake::{Fake, Said, Seen, said};
use super::*;

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::domain::ids::ChannelId;
use crate::driver::ports::Upload;

const SECRET: &str = "AAA.secret.token";

fn rest(url: &Url) -> Rest {
    Rest::new(url, &SecretString::from(SECRET)).unwrap()
}

fn post(channel: u64) -> Call {
    let path = format!("channels/{channel}/messages");
    let major = Major::Channel(ChannelId(channel));
    Call::new("create message", Method::POST, path, major).json(&json!({"content": "x"}))
}

fn edit(channel: u64) -> Call {
    let path = format!("channels/{channel}/messages/5");
    let major = Major::Channel(ChannelId(channel));
    Call::new("edit message", Method::PATCH, path, major).json(&json!({"content": "x"}))
}

fn callback() -> Call {
    let path = "interactions/7/TOKEN-OF-IT/callback".to_owned();
    Call::new("acknowledge", Method::POST, path, Major::Interaction).again(Again::Once)
}

/// Starts a server that gives these answers in turn, and then 200.
async fn answering(answers: Vec<Said>) -> Fake {
    let answers = Mutex::new(VecDeque::from(answers));
    Fake::start(move |_| {
        let next = answers.lock().unwrap().pop_front();
        next.unwrap_or_else(|| said(200, json!({"id": "1"})))
    })
    .await
}

fn limited(body: Value, headers: &[(&'static str, &str)]) -> Said {
    Said {
        headers: headers
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect(),
        ..said(429, body)
    }
}

/// Discord's limits on one channel: five calls in a window, shared by new messages and edits.
struct Limits {
    window: Duration,
    used: Mutex<HashMap<u64, (Instant, u32)>>,
    /// Before when the newest answer of each channel cannot have left.
    answered: Mutex<HashMap<u64, Instant>>,
    broken: Arc<AtomicUsize>,
}

const ALLOWED: u32 = 5;

const ANSWERS_AFTER: Duration = Duration::from_millis(8);

impl Limits {
    fn judge(&self, seen: &Seen) -> Said {
        let channel = seen.path.split('/').nth(1).unwrap().parse().unwrap();
        let now = Instant::now();
        let mut used = self.used.lock().unwrap();
        let slot = used.entry(channel).or_insert((now, 0));
        if now - slot.0 >= self.window {
            *slot = (now, 0);
        }
        let left = self.window.saturating_sub(now - slot.0).as_secs_f64();
        if slot.1 == ALLOWED {
            self.broken.fetch_add(1, Ordering::SeqCst);
            return limited(json!({"retry_after": left}), &[]);
        }
        slot.1 += 1;
        self.watch_flight(channel, now);
        Said {
            headers: vec![
                ("x-ratelimit-bucket", "shared".to_owned()),
                ("x-ratelimit-remaining", (ALLOWED - slot.1).to_string()),
                ("x-ratelimit-reset-after", format!("{left:.3}")),
            ],
            after: ANSWERS_AFTER,
            ..said(200, json!({"id": "1"}))
        }
    }

    /// Notes a second call to a channel that comes before the answer to the first can have left.
    fn watch_flight(&self, channel: u64, now: Instant) {
        let before = self
            .answered
            .lock()
            .unwrap()
            .insert(channel, now + ANSWERS_AFTER);
        if before.is_some_and(|before| now < before) {
            self.broken.fetch_add(1, Ordering::SeqCst);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn no_schedule_meets_a_limit_or_has_two_calls_of_a_channel_on_the_wire(
        calls in proptest::collection::vec((1u64..4, any::<bool>(), 0u64..60), 12..40),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let broken = runtime.block_on(async {
            let broken = Arc::new(AtomicUsize::new(0));
            let limits = Limits {
                window: Duration::from_millis(200),
                used: Mutex::default(),
                answered: Mutex::default(),
                broken: Arc::clone(&broken),
            };
            let fake = Fake::start(move |seen| limits.judge(seen)).await;
            let rest = rest(&fake.url);
            let mut tasks = tokio::task::JoinSet::new();
            for (channel, is_edit, delay) in calls {
                let rest = rest.clone();
                tasks.spawn(async move {
                    tokio::time::sleep(Duration::from_millis(delay)).await;
                    rest.send(if is_edit { edit(channel) } else { post(channel) }).await
                });
            }
            for sent in tasks.join_all().await {
                sent.unwrap();
            }
            broken.load(Ordering::SeqCst)
        });
        prop_assert_eq!(broken, 0);
    }
}

#[tokio::test]
async fn calls_of_one_kind_keep_their_order_over_a_limit() {
    let fake = answering(vec![limited(json!({"retry_after": 0.2}), &[])]).await;
    let rest = rest(&fake.url);
    let calls = (0..8).map(|n| rest.send(post(1).json(&json!({"n": n}))));
    futures_util::future::join_all(calls).await;
    let order: Vec<u64> = fake
        .seen()
        .iter()
        .map(|seen| seen.body["n"].as_u64().unwrap())
        .collect();
    assert_eq!(order, [0, 0, 1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test]
async fn a_global_limit_stops_every_channel() {
    let body = json!({"retry_after": 0.4, "global": true});
    let fake = answering(vec![limited(body, &[("x-ratelimit-scope", "global")])]).await;
    let rest = rest(&fake.url);
    let first = async {
        rest.send(post(1)).await.unwrap();
    };
    let others = async {
        fake.sees("POST channels/1/messages").await;
        // Asked only after the answer has come back.
        while rest.inner.pace.paused_until() <= Instant::now() {
            tokio::task::yield_now().await;
        }
        let (a, b) = tokio::join!(rest.send(post(2)), rest.send(post(3)));
        assert!(a.is_ok() && b.is_ok());
    };
    tokio::join!(first, others);
    let seen = fake.seen();
    assert_eq!(seen.len(), 4);
    for later in &seen[1..] {
        assert!(later.at - seen[0].at >= Duration::from_millis(400));
    }
}

#[tokio::test]
async fn a_limit_of_one_kind_holds_up_no_other() {
    let fake = Fake::start(|seen| {
        if seen.path.ends_with("/1") {
            limited(
                json!({"retry_after": 580.0}),
                &[("x-ratelimit-bucket", "rename")],
            )
        } else {
            let bucket = ("x-ratelimit-bucket", "post".to_owned());
            Said {
                headers: vec![bucket],
                ..said(200, json!({}))
            }
        }
    })
    .await;
    let rest = rest(&fake.url);
    let major = Major::Channel(ChannelId(1));
    let rename = Call::new("rename", Method::PATCH, "channels/1".to_owned(), major);
    let error = rest.send(rename).await.unwrap_err();
    assert!(matches!(error, RestError::Away { .. }), "{error}");
    rest.send(post(1)).await.unwrap();
    assert_eq!(rest.inner.lanes.count(), 1, "the limit is remembered");
}

#[tokio::test]
async fn what_faults_is_repeated_only_where_that_is_safe() {
    let table = [
        (Again::Safe, 4, true),
        (Again::Once, 1, false),
        (Again::Never, 1, false),
    ];
    for (again, requests, works) in table {
        let overloaded = said(400, json!({"code": 130_000}));
        let fake = answering(vec![
            said(500, json!({})),
            said(502, json!(null)),
            overloaded,
        ])
        .await;
        let sent = rest(&fake.url).send(post(1).again(again)).await;
        assert_eq!(sent.is_ok(), works, "{again:?}");
        assert_eq!(fake.seen().len(), requests, "{again:?}");
    }
}

#[tokio::test]
async fn tries_have_an_end() {
    let fake = Fake::start(|_| said(503, json!({}))).await;
    let error = rest(&fake.url).send(post(1)).await.unwrap_err();
    assert!(matches!(error, RestError::Away { .. }));
    assert_eq!(fake.seen().len(), 5);
}

#[tokio::test]
async fn refusals_are_final() {
    let no_wait = limited(json!({}), &[]);
    let old = limited(
        json!({"code": 30_046, "retry_after": 0.1}),
        &[("retry-after", "0.1")],
    );
    let form = said(
        400,
        json!({"code": 50_035, "message": "Invalid Form Body",
        "errors": {"content": {"_errors": [{"code": "X"}]}, "embeds": {"0": {"_errors": []}}}}),
    );
    let redirect = Said {
        headers: vec![("location", "http://127.0.0.1:1/".to_owned())],
        ..said(302, json!({}))
    };
    let table = [
        (no_wait, 429, 0),
        (old, 429, 30_046),
        (said(403, json!({"code": 50_013})), 403, 50_013),
        (form, 400, 50_035),
        (redirect, 302, 0),
    ];
    for (answer, status, code) in table {
        let fake = answering(vec![answer]).await;
        let error = rest(&fake.url).send(post(1)).await.unwrap_err();
        assert_eq!((error.status(), error.code()), (status, code));
        assert_eq!(fake.seen().len(), 1, "{error}");
        if code == 50_035 {
            assert!(
                error
                    .to_string()
                    .ends_with("Invalid Form Body (content, embeds.0)"),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn a_call_never_outlives_its_deadline() {
    let slow = Said {
        after: Duration::from_secs(30),
        ..said(200, json!({}))
    };
    let fake = answering(vec![slow]).await;
    let began = Instant::now();
    let rest = rest(&fake.url);
    let short = Duration::from_millis(200);
    let (first, behind) = tokio::join!(
        rest.send(post(1).within(short)),
        rest.send(post(1).within(short * 2)),
    );
    assert!(matches!(first, Err(RestError::Away { .. })));
    assert!(
        behind.is_ok(),
        "the queue goes on behind a call that was given up"
    );
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_wait_beyond_the_deadline_is_not_begun() {
    let fake = answering(vec![limited(json!({"retry_after": 600.0}), &[])]).await;
    let began = Instant::now();
    let error = rest(&fake.url).send(post(1)).await.unwrap_err();
    assert!(matches!(error, RestError::Away { .. }));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_refused_token_ends_all_asking() {
    let fake = answering(vec![said(
        401,
        json!({"code": 0, "message": "401: Unauthorized"}),
    )])
    .await;
    let rest = rest(&fake.url);
    assert_eq!(rest.send(post(1)).await.unwrap_err().status(), 401);
    assert!(rest.token_refused().is_cancelled());
    assert_eq!(rest.send(post(2)).await.unwrap_err().status(), 401);
    assert_eq!(fake.seen().len(), 1);
}

#[tokio::test]
async fn the_end_of_an_interactions_token_is_not_the_end_of_the_bots() {
    let fake = answering(vec![said(401, json!({"code": 50_027}))]).await;
    let rest = rest(&fake.url);
    assert_eq!(rest.send(callback()).await.unwrap_err().code(), 50_027);
    assert!(!rest.token_refused().is_cancelled());
    assert!(!fake.seen()[0].headers.contains_key("authorization"));
}

/// Starts a server that hangs up on the first connection after it has read the request, and answers on later ones.
async fn hanging_up() -> Url {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for first in [true, false, false] {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read(&mut [0; 4096]).await;
            if !first {
                let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
                socket.write_all(answer).await.unwrap();
            }
        }
    });
    Url::parse(&url).unwrap()
}

#[tokio::test]
async fn a_callback_survives_one_broken_connection() {
    let url = hanging_up().await;
    assert!(rest(&url).send(callback()).await.is_ok());
    let url = hanging_up().await;
    let call = callback().again(Again::Never);
    assert!(rest(&url).send(call).await.is_err());
}

#[tokio::test]
async fn errors_hold_neither_token_nor_address() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let rest = rest(&url);
    for call in [callback(), post(1).again(Again::Never)] {
        let error = rest.send(call).await.unwrap_err();
        let shown = format!("{error} {error:?} {rest:?}");
        assert!(
            !shown.contains("TOKEN-OF-IT") && !shown.contains("secret"),
            "{shown}"
        );
        assert!(!error.to_string().contains("http://"), "{error}");
    }
}

#[tokio::test]
async fn queues_that_nobody_stands_in_are_dropped() {
    let fake = answering(Vec::new()).await;
    let rest = rest(&fake.url);
    let calls = (1..=40).map(|channel| rest.send(post(channel)));
    futures_util::future::join_all(calls).await;
    assert_eq!(rest.inner.lanes.count(), 0);
}

#[tokio::test]
async fn files_go_with_their_message_as_one_form() {
    let fake = answering(Vec::new()).await;
    let file = Upload {
        name: "plot.png".to_owned(),
        bytes: Bytes::from_static(b"PNG-BYTES"),
    };
    rest(&fake.url)
        .send(post(1).files(vec![file]))
        .await
        .unwrap();
    let seen = &fake.seen()[0];
    assert_eq!(seen.body, json!({"content": "x"}));
    assert!(
        seen.raw
            .contains("name=\"files[0]\"; filename=\"plot.png\"")
    );
    assert!(seen.raw.contains("PNG-BYTES"));
    assert_eq!(seen.headers["authorization"], format!("Bot {SECRET}"));
}

#[tokio::test]
async fn every_part_of_a_path_is_escaped() {
    let fake = answering(Vec::new()).await;
    let major = Major::Channel(ChannelId(1));
    let path = "channels/1/messages/2/reactions/⏳/@me?x#y".to_owned();
    let call = Call::new("react", Method::PUT, path, major);
    rest(&fake.url).send(call).await.unwrap();
    assert_eq!(
        fake.seen()[0].path,
        "channels/1/messages/2/reactions/%E2%8F%B3/@me%3Fx%23y"
    );
}

#[test]
fn unusable_settings_are_refused() {
    let token = SecretString::from(SECRET);
    let ftp = Url::parse("ftp://example.org").unwrap();
    assert!(matches!(
        Rest::new(&ftp, &token),
        Err(BadSettings::Address(_))
    ));
    let url = Url::parse("https://discord.com").unwrap();
    let broken = SecretString::from("a\nb");
    assert!(matches!(Rest::new(&url, &broken), Err(BadSettings::Token)));
}
