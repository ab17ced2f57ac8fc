//! A sandbox behind an open-terminal server, single-user or multi-user. Measured with 0.14.5.
//!
//! What the server's terminal would damage goes through it in base64. No file call of the server is ever used: they
//! work with the server's rights and follow a guest's symlinks.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::{
    Done, Exec, Probe, Sandbox, SandboxError, Target, confinement, measure, shell, transfer,
};
use crate::domain::ids::AccountId;

/// How long one request waits for a command's end. Short, because proxies cut long ones.
const WAIT: Duration = Duration::from_secs(25);
/// What a request may take beyond its wait.
const GRACE: Duration = Duration::from_secs(10);
/// How often the look at a running command is repeated when its reply is lost: looking consumes nothing.
const LOOKS: u32 = 3;

/// An open-terminal server.
pub struct OpenTerminal {
    url: String,
    key: SecretString,
    client: reqwest::Client,
}

impl std::fmt::Debug for OpenTerminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenTerminal")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// A command that runs, or has run, in the server's words.
#[derive(Debug, Deserialize)]
struct Process {
    id: String,
    status: String,
    #[serde(default)]
    exit_code: Option<i32>,
    #[serde(default)]
    output: Vec<Piece>,
    #[serde(default)]
    next_offset: u64,
}

#[derive(Debug, Deserialize)]
struct Piece {
    #[serde(default)]
    data: String,
}

impl OpenTerminal {
    /// Returns a sandbox behind the server at `url` (`http://host:port`), which knows us by `key`.
    pub fn new(url: &str, key: SecretString) -> Result<OpenTerminal, SandboxError> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(5))
            // The server hangs up after 5 s of silence (measured).
            .pool_idle_timeout(Duration::from_secs(3))
            .no_proxy()
            .build()
            .map_err(|error| SandboxError::Failed(format!("no HTTP client: {error}")))?;
        let url = url.trim_end_matches('/').to_owned();
        reqwest::Url::parse(&url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| {
                SandboxError::Failed(format!(
                    "the sandbox address {url:?} is no http or https URL"
                ))
            })?;
        Ok(OpenTerminal { url, key, client })
    }

    fn request(&self, method: Method, account: &AccountId, path: &str) -> RequestBuilder {
        self.client
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(self.key.expose_secret())
            .header("X-User-Id", account.0.as_str())
    }

    async fn begin(
        &self,
        account: &AccountId,
        exec: &Exec,
        most: usize,
    ) -> Result<Process, SandboxError> {
        let wait = WAIT.min(exec.limit);
        let mut env = serde_json::Map::new();
        env.insert("LANG".to_owned(), "C.UTF-8".into());
        for (name, value) in shell::environment(exec)? {
            env.insert(name, value.into());
        }
        let body = serde_json::json!({ "command": command(exec), "env": env });
        let request = self
            .request(
                Method::POST,
                account,
                &format!("/execute?wait={}", wait.as_secs()),
            )
            .json(&body)
            .timeout(wait + GRACE);
        process(send(request).await?, most, exec.most).await
    }

    /// Looks at a command that runs, waiting for its end for a while.
    async fn look(
        &self,
        account: &AccountId,
        running: &Process,
        wait: Duration,
        room: usize,
        most: usize,
    ) -> Result<Process, SandboxError> {
        let path = format!(
            "/execute/{}/status?wait={}&offset={}",
            running.id,
            wait.as_secs(),
            running.next_offset
        );
        let mut tries = 0;
        loop {
            let request = self.request(Method::GET, account, &path);
            let looked =
                async { process(send(request.timeout(wait + GRACE)).await?, room, most).await };
            match looked.await {
                Err(SandboxError::Away(_)) if tries < LOOKS => tries += 1,
                looked => return looked,
            }
        }
    }

    /// Lets the server forget a command that took too long; it also ends by itself.
    async fn drop_command(&self, account: &AccountId, running: &Process) {
        let path = format!("/execute/{}?force=true", running.id);
        let request = self.request(Method::DELETE, account, &path);
        if let Err(error) = send(request.timeout(Duration::from_secs(2))).await {
            tracing::debug!(%account, %error, "a slow command could not be dropped");
        }
    }

    async fn carry_out(&self, account: &AccountId, exec: Exec) -> Result<Done, SandboxError> {
        let began = Instant::now();
        // Base64 adds a third, JSON's own words some more.
        let room = exec.most.saturating_mul(2).saturating_add(64 * 1024);
        let mut text = String::new();
        let mut running = self.begin(account, &exec, room).await?;
        loop {
            for piece in running.output.drain(..) {
                text.push_str(&piece.data);
            }
            if text.len() > room {
                self.drop_command(account, &running).await;
                return Err(SandboxError::TooMuch(exec.most));
            }
            if running.status != "running" {
                return finish(&exec, &text, running.exit_code);
            }
            let left = (exec.limit + GRACE).saturating_sub(began.elapsed());
            if left.is_zero() {
                self.drop_command(account, &running).await;
                return Err(SandboxError::Slow(exec.limit));
            }
            let wait = WAIT.min(left.max(Duration::from_secs(1)));
            running = self.look(account, &running, wait, room, exec.most).await?;
        }
    }
}

#[async_trait]
impl Sandbox for OpenTerminal {
    async fn exec(&self, account: &AccountId, exec: Exec) -> Result<Done, SandboxError> {
        measure::command(self.carry_out(account, exec)).await
    }

    async fn put(&self, account: &AccountId, path: &str, bytes: Bytes) -> Result<(), SandboxError> {
        transfer::put(self, account, path, bytes).await
    }

    async fn get(
        &self,
        account: &AccountId,
        path: &str,
        most: usize,
    ) -> Result<Bytes, SandboxError> {
        transfer::get(self, account, path, most).await
    }

    async fn kill(&self, account: &AccountId, target: &Target) -> Result<(), SandboxError> {
        let exec = Exec {
            script: shell::script(KILL),
            vars: vec![
                ("DIR", shell::path(&target.directory)?.into_bytes()),
                ("RUN", target.mark.clone().into_bytes()),
                (
                    "ALONE",
                    if target.alone {
                        b"yes".to_vec()
                    } else {
                        b"no".to_vec()
                    },
                ),
            ],
            limit: Duration::from_secs(30),
            most: 1024,
        };
        match self.exec(account, exec).await?.code {
            0 => Ok(()),
            _ => Err(SandboxError::Failed(format!(
                "something of the run {} is still alive after many SIGKILLs",
                target.mark
            ))),
        }
    }

    async fn probe(&self, account: &AccountId) -> Result<Probe, SandboxError> {
        confinement::probe(self, account).await
    }
}

/// Ends a run from inside: the agent is asked first, then everything that carries the mark is killed, and looked for
/// again, until two looks find nothing (a process that is just becoming another program shows no environment). Where the account has a Unix user of its own and no other run, everything of
/// that user is ended but the sweeper, its ancestors and their other children (the ends of its own pipes).
const KILL: &str = r#"take DIR RUN ALONE
marked() { grep -qszxF -- "INNKEEPER_RUN=$RUN" "/proc/$1/environ"; }
if cd -- "$DIR" 2>/dev/null && read -r agent <cli && [ "${agent:-0}" -gt 1 ] && marked "$agent"; then
  kill -s INT "$agent" && flock -w 3 -s lock true
fi
keep=' '; p=$$
while [ "${p:-0}" -gt 1 ] && [ -O "/proc/$p" ]; do
  keep="$keep$p "; p=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$p/status")
done
field() { sed -n "s/^$2:[[:space:]]*\([^[:space:]]*\).*/\1/p" "/proc/$1/status" 2>/dev/null; }
found() {
  if [ "$ALONE" = yes ] && [ "${INNKEEPER_OWN_USER-}" = yes ]; then
    find /proc -maxdepth 1 -name '[0-9]*' -uid "$(id -u)" 2>/dev/null
  else
    grep -lszxF -- "INNKEEPER_RUN=$RUN" /proc/[0-9]*/environ
  fi
}
round=0 quiet=0
while [ $round -lt 100 ]; do
  left=
  for f in $(found); do
    p=${f#/proc/}; p=${p%/environ}
    case $keep in *" $p "*) continue;; esac
    case $keep in *" $(field "$p" PPid) "*) continue;; esac
    case $(field "$p" State) in Z | X | '') continue;; esac
    kill -s KILL "$p" 2>/dev/null && left=yes
  done
  if [ -n "$left" ]; then quiet=0; else quiet=$((quiet + 1)); fi
  [ $quiet -lt 2 ] || exit 0
  round=$((round + 1)); sleep 0.05
done
exit 1
"#;

/// Returns the text that the server is given: the script in a frame that brings its output through the terminal.
///
/// It begins by taking out of the environment whatever the server has in its own, and tells the script whether sudo
/// brought it here, which means that the account has a Unix user of its own. The frame is `<inn:`, standard output and
/// exit code in base64, `:`, the end of standard error in base64, `:inn>`.
fn command(exec: &Exec) -> String {
    let limit = exec.limit.as_secs().max(1);
    let script = shell::quote(&exec.script);
    format!(
        r#"{{ : innkeeper-exec
case ${{SUDO_COMMAND-}} in *innkeeper-exec*) own=yes;; *) own=no;; esac
for n in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
case $n in HOME|PATH|USER|LOGNAME|SHELL|LANG|TZ|LC_INN_*) ;; *) unset "$n";; esac; done
cd "$HOME" && exec 4>&1 && printf '<inn:'
e=$({{ {{ INNKEEPER_OWN_USER=$own timeout -k 2 {limit} sh -c {script} 4>&- </dev/null; printf ' %s' $?; }} | base64 -w0 >&4; }} 2>&1 | tail -c 999 | base64 -w0)
printf ':%s:inn>' "$e"
}}"#
    )
}

fn finish(exec: &Exec, text: &str, exit: Option<i32>) -> Result<Done, SandboxError> {
    let Some(begun) = text.find("<inn:").map(|at| &text[at + 5..]) else {
        let said: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
        return Err(SandboxError::Failed(format!(
            "the sandbox could not run a command (exit code {exit:?}): {said}"
        )));
    };
    let cut = || SandboxError::Away("the command was interrupted".to_owned());
    let framed = begun.find(":inn>").map(|at| &begun[..at]).ok_or_else(cut)?;
    let (out, err) = framed.split_once(':').ok_or_else(cut)?;
    let mut out = STANDARD.decode(out).map_err(|_| cut())?;
    let err = STANDARD.decode(err).map_err(|_| cut())?;
    let space = out.iter().rposition(|byte| *byte == b' ').ok_or_else(cut)?;
    let code = std::str::from_utf8(&out[space + 1..])
        .ok()
        .and_then(|code| code.parse().ok())
        .ok_or_else(cut)?;
    out.truncate(space);
    shell::judge(exec, code, &String::from_utf8_lossy(&err))?;
    if out.len() > exec.most {
        return Err(SandboxError::TooMuch(exec.most));
    }
    Ok(Done {
        code,
        out: out.into(),
    })
}

async fn send(request: RequestBuilder) -> Result<Response, SandboxError> {
    let response = request.send().await.map_err(|error| {
        let why = chain(&error.without_url());
        SandboxError::Away(format!("open-terminal cannot be reached: {why}"))
    })?;
    match response.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(SandboxError::Refused(format!(
            "it answered {}; set sandbox.api_key to the server's OPEN_TERMINAL_API_KEY",
            response.status()
        ))),
        // The server was started anew and does not know the command any more.
        StatusCode::NOT_FOUND => Err(SandboxError::Away(
            "it does not know the command, or is no open-terminal".to_owned(),
        )),
        status if status.is_success() => Ok(response),
        status if status.is_client_error() => {
            let said = body(response, 4096, 4096).await.unwrap_or_default();
            let said: String = String::from_utf8_lossy(&said).chars().take(200).collect();
            Err(SandboxError::Failed(format!(
                "the sandbox answered {status}: {said}"
            )))
        }
        status => Err(SandboxError::Away(format!(
            "open-terminal answers, but with {status}: see its log"
        ))),
    }
}

async fn process(response: Response, room: usize, most: usize) -> Result<Process, SandboxError> {
    let bytes = body(response, room, most).await?;
    serde_json::from_slice(&bytes)
        .map_err(|error| SandboxError::Away(format!("its answer is not readable: {error}")))
}

/// Reads an answer of at most `room` bytes.
async fn body(mut response: Response, room: usize, most: usize) -> Result<BytesMut, SandboxError> {
    let mut bytes = BytesMut::new();
    loop {
        let chunk = response
            .chunk()
            .await
            .map_err(|error| SandboxError::Away(chain(&error.without_url())))?;
        let Some(chunk) = chunk else {
            return Ok(bytes);
        };
        if bytes.len() + chunk.len() > room {
            return Err(SandboxError::TooMuch(most));
        }
        bytes.extend_from_slice(&chunk);
    }
}

/// Tells an error with its causes: reqwest's own text does not say why.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(most: usize) -> Exec {
        Exec {
            script: "true".to_owned(),
            vars: vec![],
            limit: Duration::from_secs(1),
            most,
        }
    }

    fn framed(out: &[u8], err: &str) -> String {
        format!(
            "noise\r\n<inn:{}:{}:inn>\r\n",
            STANDARD.encode(out),
            STANDARD.encode(err)
        )
    }

    #[test]
    fn output_and_code_are_read_from_the_frame() {
        let done = finish(&exec(99), &framed(b"a b\xff 7", ""), Some(0)).unwrap();
        assert_eq!(done.code, 7);
        assert_eq!(done.out.as_ref(), b"a b\xff");
    }

    #[test]
    fn a_cut_frame_is_an_interruption_and_no_frame_a_failure() {
        let whole = framed(b"hello 0", "");
        let begin = whole.find("<inn:").unwrap();
        let end = whole.find(":inn>").unwrap() + 5;
        for cut in begin + 5..end {
            assert!(
                matches!(
                    finish(&exec(99), &whole[..cut], None),
                    Err(SandboxError::Away(_))
                ),
                "cut at {cut}"
            );
        }
        assert!(matches!(
            finish(&exec(99), "bash: cd: /home/x: No such file", Some(1)),
            Err(SandboxError::Failed(text)) if text.contains("No such file")
        ));
    }

    #[test]
    fn more_than_asked_for_is_an_error() {
        assert!(matches!(
            finish(&exec(3), &framed(b"four 0", ""), Some(0)),
            Err(SandboxError::TooMuch(3))
        ));
    }

    #[test]
    fn the_key_is_not_in_what_debug_prints() {
        let sandbox = OpenTerminal::new("http://localhost:1/", "hush-hush".into()).unwrap();
        assert!(!format!("{sandbox:?}").contains("hush"));
        assert!(OpenTerminal::new("localhost", "x".into()).is_err());
    }
}
