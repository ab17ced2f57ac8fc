//! The way to the provider: the key is put on here, and only what is needed goes over in either direction.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use secrecy::{ExposeSecret as _, SecretString};

use super::leases::MeterError;

/// How long a connection to the provider may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// How long the provider may be silent: an answer that is not streamed can take ten minutes, and streams are never
/// silent for long.
const SILENCE: Duration = Duration::from_secs(660);

/// Request headers that go to the provider.
const ASKED: [HeaderName; 5] = [
    HeaderName::from_static("anthropic-version"),
    HeaderName::from_static("anthropic-beta"),
    header::ACCEPT,
    header::CONTENT_TYPE,
    header::USER_AGENT,
];

/// Beta features that reach beyond the turn (other people's files, servers of others) or cost what the meter cannot
/// count, by the beginning of their names.
const CLOSED_BETAS: [&str; 7] = [
    "advisor-tool-",
    "code-execution-",
    "fast-mode-",
    "files-api-",
    "mcp-client-",
    "server-side-fallback-",
    "skills-",
];

/// Response headers that go to the sandbox, beside those of the provider's own that begin with `anthropic-`.
const ANSWERED: [HeaderName; 7] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CACHE_CONTROL,
    header::RETRY_AFTER,
    HeaderName::from_static("retry-after-ms"),
    HeaderName::from_static("request-id"),
    HeaderName::from_static("x-should-retry"),
];

/// The provider's own header that stays outside: it names the owner's organisation.
const ORGANISATION: &str = "anthropic-organization-id";

/// The provider.
#[derive(Debug)]
pub(super) struct Provider {
    client: reqwest::Client,
    base: String,
    shown: String,
    key: HeaderValue,
}

/// What the provider says to whoever asks for its models, which costs nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// It takes the key.
    Taken,
    /// It answers with this HTTP status.
    Refused(u16),
    /// It does not answer; why, without secrets.
    Away(String),
}

/// Asks the provider at `base` for its models, to learn whether it takes this key.
pub async fn greet(base: &str, key: &SecretString) -> Result<Greeting, MeterError> {
    let upstream = base
        .parse()
        .map_err(|_| MeterError::Upstream(base.to_owned()))?;
    let mut headers = HeaderMap::new();
    headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    let asked = Outgoing {
        method: Method::GET,
        path: "/v1/models?limit=1".to_owned(),
        headers,
        body: Bytes::new(),
    };
    Ok(match Provider::new(upstream, key)?.send(asked).await {
        Ok(answer) if answer.status().is_success() => Greeting::Taken,
        Ok(answer) => Greeting::Refused(answer.status().as_u16()),
        Err(error) => Greeting::Away(chain(&error)),
    })
}

/// Tells an error with its causes: reqwest's own text does not say why.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = causes.map(|cause| cause.to_string()).collect();
    texts.join(": ")
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    /// Path and query, beginning with `/v1/`.
    pub(super) path: String,
    /// As the sandbox sent them.
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Provider {
    pub(super) fn new(upstream: reqwest::Url, key: &SecretString) -> Result<Provider, MeterError> {
        let shown = format!(
            "{}://{}",
            upstream.scheme(),
            upstream.host_str().unwrap_or("")
        );
        if !matches!(upstream.scheme(), "http" | "https") || upstream.query().is_some() {
            return Err(MeterError::Upstream(shown));
        }
        let mut key = HeaderValue::from_str(key.expose_secret())
            .ok()
            .filter(|key| !key.is_empty())
            .ok_or(MeterError::Key)?;
        key.set_sensitive(true);
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .build()
            .map_err(|error| MeterError::Client(error.to_string()))?;
        Ok(Provider {
            client,
            base: upstream.as_str().trim_end_matches('/').to_owned(),
            shown: match upstream.port() {
                Some(port) => format!("{shown}:{port}"),
                None => shown,
            },
            key,
        })
    }

    /// Returns the provider's address for the log: without a path, and without what may stand before the host.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(&self, outgoing: Outgoing) -> reqwest::Result<reqwest::Response> {
        let Outgoing {
            method,
            path,
            headers,
            body,
        } = outgoing;
        let mut headers = asked(&headers);
        headers.insert("x-api-key", self.key.clone());
        self.client
            .request(method, format!("{}{path}", self.base))
            .headers(headers)
            .body(body)
            .send()
            .await
            .map_err(reqwest::Error::without_url)
    }
}

fn asked(from: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for name in &ASKED {
        for value in from.get_all(name) {
            headers.append(name, value.clone());
        }
    }
    let betas = open_betas(&headers);
    headers.remove("anthropic-beta");
    if let Some(betas) = betas {
        headers.insert("anthropic-beta", betas);
    }
    headers
}

/// Returns the beta features that were asked for, without the closed ones.
fn open_betas(headers: &HeaderMap) -> Option<HeaderValue> {
    let open: Vec<_> = headers
        .get_all("anthropic-beta")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|beta| {
            !beta.is_empty() && !CLOSED_BETAS.iter().any(|closed| beta.starts_with(closed))
        })
        .collect();
    let joined = HeaderValue::from_str(&open.join(",")).ok()?;
    (!joined.is_empty()).then_some(joined)
}

/// Returns the headers of an answer that go to the sandbox.
pub(super) fn answered(from: &HeaderMap) -> HeaderMap {
    let passes = |name: &HeaderName| {
        ANSWERED.contains(name)
            || (name.as_str().starts_with("anthropic-") && name.as_str() != ORGANISATION)
    };
    from.iter()
        .filter(|(name, _)| passes(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in all {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    /// Returns the address of a provider that answers every request with this status, and what it was asked.
    async fn provider_that_says(status: &'static str) -> (String, tokio::task::JoinHandle<String>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = String::new();
            while !asked.ends_with("\r\n\r\n") {
                asked.push(char::from(stream.read_u8().await.unwrap()));
            }
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            asked
        });
        (address, asked)
    }

    #[tokio::test]
    async fn the_provider_is_asked_for_its_models_with_the_key() {
        let key = SecretString::from("sk-secret");
        for (status, expected) in [
            ("200 OK", Greeting::Taken),
            ("401 Unauthorized", Greeting::Refused(401)),
            ("302 Found", Greeting::Refused(302)),
        ] {
            let (address, asked) = provider_that_says(status).await;
            assert_eq!(greet(&address, &key).await.unwrap(), expected);
            let asked = asked.await.unwrap();
            assert!(asked.starts_with("GET /v1/models?limit=1 "), "{asked}");
            assert!(asked.contains("x-api-key: sk-secret\r\n"), "{asked}");
        }
        // The cause is told, which the client's own text lacks.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let nobodys = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let away = greet(&nobodys, &key).await.unwrap();
        let Greeting::Away(why) = away else {
            panic!("{away:?}");
        };
        assert!(why.contains("refused"), "{why}");
        assert!(greet("nonsense", &key).await.is_err());
    }

    #[test]
    fn only_needed_headers_go_to_the_provider() {
        let given = headers(&[
            ("anthropic-version", "2023-06-01"),
            ("anthropic-beta", "a-2025, files-api-2025-04-14,b-2026"),
            ("anthropic-beta", "fast-mode-2026-02-01"),
            ("authorization", "Bearer token"),
            ("x-api-key", "token"),
            ("cookie", "c"),
            ("connection", "keep-alive, x-evil"),
            ("accept-encoding", "gzip"),
            ("content-encoding", "gzip"),
            ("accept", "application/json"),
        ]);
        let wanted = headers(&[
            ("anthropic-version", "2023-06-01"),
            ("anthropic-beta", "a-2025,b-2026"),
            ("accept", "application/json"),
        ]);
        assert_eq!(asked(&given), wanted);
    }

    #[test]
    fn only_harmless_headers_go_to_the_sandbox() {
        let given = headers(&[
            ("content-type", "application/json"),
            ("retry-after", "7"),
            ("anthropic-ratelimit-requests-remaining", "3"),
            ("anthropic-organization-id", "o"),
            ("set-cookie", "c"),
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
            ("location", "http://elsewhere"),
        ]);
        let wanted = headers(&[
            ("content-type", "application/json"),
            ("retry-after", "7"),
            ("anthropic-ratelimit-requests-remaining", "3"),
        ]);
        assert_eq!(answered(&given), wanted);
    }

    #[test]
    fn neither_an_odd_address_nor_an_odd_key_is_taken_and_neither_is_shown() {
        let url = |text: &str| reqwest::Url::parse(text).unwrap();
        let odd = Provider::new(url("ftp://user:secret@host/"), &"key".into()).unwrap_err();
        assert!(!odd.to_string().contains("secret"), "{odd}");
        for key in ["", "se\ncret"] {
            let odd = Provider::new(url("http://host"), &key.into()).unwrap_err();
            assert!(matches!(odd, MeterError::Key), "{odd}");
        }
        let provider = Provider::new(url("http://host/base/"), &"sk-secret".into()).unwrap();
        assert!(!format!("{provider:?}").contains("sk-secret"));
        assert_eq!(provider.base, "http://host/base");
    }
}
