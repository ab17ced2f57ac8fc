//! A provider whose every byte the test says itself.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Listens for one request a connection.
pub(crate) struct Upstream {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

/// One request, and the way to answer it.
pub(crate) struct Asked {
    /// Request line and headers, in lower case but for the values.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    stream: TcpStream,
}

impl Upstream {
    pub(crate) async fn start() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Upstream { listener, address }
    }

    /// Returns its address, with a path as gateways have one.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/base/", self.address)
    }

    /// Waits for the next request.
    pub(crate) async fn asked(&self) -> Asked {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(end) = find(&bytes, b"\r\n\r\n") {
                break end + 4;
            }
            assert_ne!(
                stream.read_buf(&mut bytes).await.unwrap(),
                0,
                "no whole head came"
            );
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length = header(&head, "content-length").map_or(0, |value| value.parse().unwrap());
        while bytes.len() < end + length {
            assert_ne!(
                stream.read_buf(&mut bytes).await.unwrap(),
                0,
                "no whole body came"
            );
        }
        let body = bytes[end..].to_vec();
        Asked { head, body, stream }
    }

    /// Returns whether somebody asks or has asked something that was not taken yet.
    pub(crate) async fn is_asked(&self) -> bool {
        // A connection that was made is in the listener's queue already: nothing needs to be waited for.
        tokio::select! {
            biased;
            _ = self.listener.accept() => true,
            () = tokio::task::yield_now() => false,
        }
    }
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) async fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Answers something whole.
    pub(crate) async fn answer(mut self, status: &str, headers: &str, body: &str) {
        let length = body.len();
        self.say(&format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"))
            .await;
    }

    /// Begins a stream that ends with the connection, with what its input used.
    pub(crate) async fn begin(&mut self, input: u64) {
        self.say("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n")
            .await;
        self.event(&format!(
            r#"{{"type":"message_start","message":{{"usage":{{"input_tokens":{input},"output_tokens":1}}}}}}"#
        ))
        .await;
    }

    pub(crate) async fn event(&mut self, data: &str) {
        let event = format!("data: {data}\n\n");
        self.say(&format!("{:x}\r\n{event}\r\n", event.len())).await;
    }

    pub(crate) async fn text(&mut self, text: &str) {
        let delta = serde_json::json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}});
        self.event(&delta.to_string()).await;
    }

    /// Ends a stream properly, with what its output used.
    pub(crate) async fn end(mut self, output: u64) {
        self.event(&format!(
            r#"{{"type":"message_delta","usage":{{"output_tokens":{output}}}}}"#
        ))
        .await;
        self.event(r#"{"type":"message_stop"}"#).await;
        self.say("0\r\n\r\n").await;
    }

    /// Waits until the other side has hung up.
    pub(crate) async fn is_left(&mut self) {
        let mut rest = [0; 64];
        while !matches!(self.stream.read(&mut rest).await, Ok(0) | Err(_)) {}
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (own, value) = line.split_once(": ")?;
        own.eq_ignore_ascii_case(name).then_some(value)
    })
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|piece| piece == what)
}
