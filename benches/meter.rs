//! Measures what the meter adds: delay to the first byte with many streams open, and memory for each of them.
//!
//! A provider that answers at once is asked directly and through the meter, again and again, while other streams stay
//! open whose pieces nobody takes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement, not production code"
)]

use std::time::{Duration, Instant};

use innkeeper::domain::ids::TurnId;
use innkeeper::domain::money::Usd;
use innkeeper::meter::{Lease, Meter, MeterEvent, Prices, Settings};
use secrecy::ExposeSecret as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const STREAMS: u64 = 50;
const ASKS: u64 = 300;
const BEGIN: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
    data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n";

#[tokio::main]
async fn main() {
    let provider = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let direct = format!("http://{}", provider.local_addr().unwrap());
    tokio::spawn(provide(provider));
    let meter = start(&direct).await;
    let body = body();
    for (name, through) in [("direct", false), ("through the meter", true)] {
        let asked = |turn| {
            let (base, token) = match through {
                true => open(&meter, turn),
                false => (direct.clone(), String::new()),
            };
            ask(base, token, body.clone())
        };
        let before = resident();
        let mut others = Vec::new();
        for turn in 0..STREAMS {
            others.push(asked(turn).await.1);
        }
        let memory = resident().saturating_sub(before);
        let mut delays = Vec::new();
        for turn in STREAMS..STREAMS + ASKS {
            delays.push(asked(turn).await.0);
            meter.close(TurnId(turn));
        }
        report(name, delays, memory);
    }
}

fn report(name: &str, mut delays: Vec<Duration>, memory: u64) {
    delays.sort_unstable();
    let at = |percent: usize| delays[(delays.len() * percent / 100).min(delays.len() - 1)];
    println!(
        "{name}: first byte p50 {:?}, p99 {:?}; an open stream took {} KiB, client and provider included",
        at(50),
        at(99),
        memory / 1024 / STREAMS,
    );
}

/// Answers every request with the beginning of a stream, then with a piece every 10 ms.
async fn provide(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(stream_to(stream));
    }
}

async fn stream_to(mut stream: TcpStream) {
    let mut bytes = vec![0; 16 * 1024];
    let mut seen = 0;
    while seen < body().len() {
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(more) => seen += more,
        }
    }
    let piece = b"data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"word\"}}\n\n";
    let mut next = stream.write_all(BEGIN.as_bytes()).await;
    while next.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
        next = stream.write_all(piece).await;
    }
}

async fn start(upstream: &str) -> Meter {
    let (events, mut told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(event) = told.recv().await {
            if let MeterEvent::Opening { stored, .. } = event {
                let _ = stored.send(());
            }
        }
    });
    let settings = Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        upstream: upstream.parse().unwrap(),
        key: "key".into(),
        prices: Prices::default(),
    };
    Meter::start(
        settings,
        TaskTracker::new(),
        CancellationToken::new(),
        events,
    )
    .await
    .unwrap()
}

fn open(meter: &Meter, turn: u64) -> (String, String) {
    let lease = Lease {
        turn: TurnId(turn),
        hold: Usd(100_000_000),
        spent: Usd::ZERO,
        estimated: false,
        families: Some(vec!["sonnet".to_owned()]),
        token: None,
    };
    let opened = meter.open(lease).unwrap();
    let base = format!("http://{}{}", meter.address(), opened.path);
    (base, opened.token.expose_secret().to_owned())
}

async fn ask(base: String, token: String, body: String) -> (Duration, reqwest::Response) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client
        .post(format!("{base}/v1/messages"))
        .bearer_auth(token)
        .body(body)
        .build()
        .unwrap();
    let began = Instant::now();
    let mut answer = client.execute(request).await.unwrap();
    answer.chunk().await.unwrap().unwrap();
    (began.elapsed(), answer)
}

/// A request of the size that the agent's program sends: 100 kB.
fn body() -> String {
    let words = "a few words ".repeat(8_000);
    format!(
        r#"{{"model":"claude-sonnet-5","max_tokens":32000,"stream":true,"messages":[{{"role":"user","content":"{words}"}}]}}"#
    )
}

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}
