//! The log: to standard error, for people or as JSON, and never with a secret in it.
//!
//! Two things hold whatever `RUST_LOG` says. What serenity logs below a warning is not written: its spans carry whole
//! requests, tokens in routes included (measured: 36 MB of log for one upload at `debug`). And every line goes through a
//! [`Redactor`] before it leaves the process, panics included.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use regex::Regex;
use secrecy::{ExposeSecret, SecretString};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, FilterExt};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Filter, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use super::config::LogFormat;

/// What is logged where `RUST_LOG` does not say.
const USUAL: &str = "warn,innkeeper=info";

/// What stands where a secret stood.
const HIDDEN: &str = "[hidden]";

/// Forms that secrets have wherever they come from; the first group, where there is one, is kept.
const FORMS: [&str; 6] = [
    // Whoever has one of these two may speak as the bot for 15 minutes.
    r#"(/webhooks/\d+/)[^/?\s"'\\]+"#,
    r#"(/interactions/\d+/)[^/?\s"'\\]+"#,
    r"(\bBot )[A-Za-z0-9_.\-]{10,}",
    r"(\bBearer )[A-Za-z0-9_.~+/=\-]{10,}",
    r"sk-ant-[A-Za-z0-9_\-]+",
    // A bot's token: its id, a time and a signature.
    r"\b[A-Za-z0-9_\-]{23,28}\.[A-Za-z0-9_\-]{6,7}\.[A-Za-z0-9_\-]{27,}",
];

/// Takes secrets out of text.
#[derive(Clone, Debug)]
pub struct Redactor {
    forms: Arc<[Regex]>,
    known: Arc<[SecretString]>,
}

impl Redactor {
    /// Makes one that knows these secrets beside the forms that secrets usually have.
    pub fn new(known: impl IntoIterator<Item = SecretString>) -> Result<Redactor, regex::Error> {
        let forms: Vec<Regex> = FORMS
            .iter()
            .map(|form| Regex::new(form))
            .collect::<Result<_, _>>()?;
        let mut known: Vec<SecretString> = known
            .into_iter()
            .filter(|secret| !secret.expose_secret().is_empty())
            .flat_map(|secret| {
                // `Debug` in a JSON line puts a secret into two pairs of quotation marks.
                let once = escaped(&secret);
                [escaped(&once), once, secret]
            })
            .collect();
        // The longest first, so that a secret that holds another one leaves nothing behind.
        known.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        Ok(Redactor {
            forms: forms.into(),
            known: known.into(),
        })
    }

    /// Returns the text with `[hidden]` in the place of every secret.
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for secret in self.known.iter() {
            if text.contains(secret.expose_secret()) {
                text = Cow::Owned(text.replace(secret.expose_secret(), HIDDEN));
            }
        }
        for form in self.forms.iter() {
            let replacement = match form.captures_len() {
                1 => HIDDEN.to_owned(),
                _ => format!("${{1}}{HIDDEN}"),
            };
            if let Cow::Owned(cleaned) = form.replace_all(&text, replacement) {
                text = Cow::Owned(cleaned);
            }
        }
        text
    }
}

/// Returns a secret as it stands inside of quotation marks, in `Debug` and in JSON.
fn escaped(secret: &SecretString) -> SecretString {
    let quoted = format!("{:?}", secret.expose_secret());
    SecretString::from(quoted.trim_matches('"'))
}

/// Starts the log of this process, panics included; once, before anything is worth telling.
pub fn start(format: LogFormat, redactor: Redactor) -> anyhow::Result<()> {
    let filter = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let writer = Redacting {
        redactor,
        inner: io::stderr,
    };
    tracing_subscriber::registry()
        .with(layer(format, &filter, io::stderr().is_terminal(), writer))
        .try_init()?;
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(())
}

/// Makes the layer that writes: format, filter as in `RUST_LOG`, colours, and where to.
fn layer<S, W>(
    format: LogFormat,
    filter: &str,
    colours: bool,
    writer: Redacting<W>,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let filter = if filter.trim().is_empty() {
        USUAL
    } else {
        filter
    };
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .parse_lossy(filter)
        .and(Wanted);
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(colours);
    match format {
        LogFormat::Text => layer.with_filter(filter).boxed(),
        LogFormat::Json => layer.json().with_filter(filter).boxed(),
    }
}

/// Returns whether this may be written whatever the filter says.
///
/// The gateway's websocket warns with the whole text of an event that it cannot read, people's messages included: of it
/// only errors are wanted.
fn is_wanted(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let most = if target.starts_with("serenity::gateway::ws") {
        Level::ERROR
    } else {
        Level::WARN
    };
    let is_serenity = target == "serenity" || target.starts_with("serenity::");
    !is_serenity || (metadata.is_event() && *metadata.level() <= most)
}

/// Keeps out what is not to be written whatever the filter says.
struct Wanted;

impl<S> Filter<S> for Wanted {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        is_wanted(metadata)
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        !is_farewell(event)
    }
}

/// Returns whether this is what serenity says at each orderly end: Discord, or the stand-in, does not answer its goodbye with
/// one of its own, which harms nobody, and would be the last line of every log.
fn is_farewell(event: &Event<'_>) -> bool {
    let mut message = Message(String::new());
    if event.metadata().target() == "serenity::gateway::bridge::shard_runner" {
        event.record(&mut message);
    }
    message
        .0
        .ends_with("Received an error awaiting close frame")
}

/// The words of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// A writer that takes the secrets out of each line. The layer above writes a whole event at once.
struct Redacting<W> {
    redactor: Redactor,
    inner: W,
}

impl<'writer, W: MakeWriter<'writer>> MakeWriter<'writer> for Redacting<W> {
    type Writer = RedactingWriter<W::Writer>;

    fn make_writer(&'writer self) -> Self::Writer {
        RedactingWriter {
            redactor: self.redactor.clone(),
            inner: self.inner.make_writer(),
        }
    }
}

/// Writes what one event became.
struct RedactingWriter<W> {
    redactor: Redactor,
    inner: W,
}

impl<W: Write> Write for RedactingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.inner
            .write_all(self.redactor.clean(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing::{debug, error, info, info_span, trace, warn};

    use super::*;

    const TOKEN: &str = "MTE1NjI3ODkwMTIzNDU2Nzg5.GaBcDe.0123456789abcdefghijklmnopqrstuvwxyzAB";

    /// Keeps what is written.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn redactor(known: &[&str]) -> Redactor {
        Redactor::new(known.iter().map(|secret| SecretString::from(*secret))).unwrap()
    }

    /// Returns what is logged while `say` runs.
    fn logged(format: LogFormat, filter: &str, say: impl FnOnce()) -> String {
        let lines = Lines::default();
        let into = lines.clone();
        let writer = Redacting {
            redactor: redactor(&["correct\"battery\\horse", "hunter2"]),
            inner: move || into.clone(),
        };
        let subscriber = tracing_subscriber::registry().with(layer(format, filter, false, writer));
        tracing::subscriber::with_default(subscriber, say);
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn secrets_are_taken_out_of_text() {
        let redactor = redactor(&["hunter2", "hunter2-long"]);
        let cases = [
            (
                "POST /api/v10/webhooks/12/aW50ZXJhY3Rpb24/messages/@original",
                "POST /api/v10/webhooks/12/[hidden]/messages/@original",
            ),
            (
                "https://discord.com/api/v10/interactions/12/aW50.x_y-z/callback",
                "https://discord.com/api/v10/interactions/12/[hidden]/callback",
            ),
            (
                "url: \"/webhooks/12/abc\", x",
                "url: \"/webhooks/12/[hidden]\", x",
            ),
            (
                "authorization: Bot abcdefghijk.lmn",
                "authorization: Bot [hidden]",
            ),
            ("Bearer abcdefghijkl", "Bearer [hidden]"),
            ("key sk-ant-api03-AbC_d-9.", "key [hidden]."),
            ("hunter2-long and hunter2", "[hidden] and [hidden]"),
            (
                "the Bot is up at /channels/12/messages/13",
                "the Bot is up at /channels/12/messages/13",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(redactor.clean(text), expected);
        }
        assert_eq!(redactor.clean(&format!("<{TOKEN}>")), "<[hidden]>");
    }

    #[test]
    fn nothing_secret_is_written_in_either_format() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let text = logged(format, "", || {
                let span = info_span!("request", url = "/webhooks/1/spansecret/messages");
                let _inside = span.enter();
                info!(key = "hunter2", pass = ?"correct\"battery\\horse", "said {TOKEN}");
                warn!("sk-ant-oat01-abc at /interactions/5/linesecret/callback");
            });
            assert!(text.contains("said [hidden]"), "{text}");
            for secret in [
                "spansecret",
                "linesecret",
                "hunter2",
                "battery",
                "sk-ant",
                "GaBcDe",
            ] {
                assert!(!text.contains(secret), "{secret}: {text}");
            }
        }
    }

    #[test]
    fn serenity_stays_at_warnings_without_spans_whatever_the_filter_says() {
        let loud = "trace,serenity=trace,serenity::http::client=trace,[request]=trace";
        let text = logged(LogFormat::Text, loud, || {
            let span = tracing::error_span!(target: "serenity::http::client", "request", body = "in-a-span");
            let _inside = span.enter();
            info!(target: "serenity::gateway::shard", "too-quiet");
            trace!(target: "serenity", "too-quiet");
            warn!(target: "serenity::gateway::ws", "people's words");
            warn!(target: "serenity::gateway::bridge::shard_runner", "[ShardRunner {:?}] Received an error awaiting close frame", 0);
            warn!(target: "serenity::gateway::bridge::shard_runner", "another-trouble");
            warn!(target: "serenity::gateway::shard", "loud-enough");
            error!(target: "serenity::gateway::ws", "worse");
            debug!(target: "serenity_like", "another crate");
        });
        for absent in ["too-quiet", "in-a-span", "people's words", "close frame"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
        for present in ["loud-enough", "worse", "another crate", "another-trouble"] {
            assert!(text.contains(present), "{present}: {text}");
        }
    }

    #[test]
    fn without_a_filter_the_house_tells_its_news_and_others_their_troubles() {
        let text = logged(LogFormat::Json, " ", || {
            info!(target: "innkeeper::driver", "our news");
            debug!(target: "innkeeper::driver", "our details");
            info!(target: "hyper", "their news");
            warn!(target: "hyper", "their trouble");
        });
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let said: Vec<&str> = lines
            .iter()
            .filter_map(|line| line["fields"]["message"].as_str())
            .collect();
        assert_eq!(said, ["our news", "their trouble"]);
    }
}
