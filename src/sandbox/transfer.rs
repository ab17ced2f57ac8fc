//! Files in and out, by commands of the account itself: never a file call with other rights than the account's.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::{Exec, Sandbox, SandboxError, shell};
use crate::domain::ids::AccountId;

/// Names of the variables that one command of a write carries.
const PIECES: [&str; 8] = ["D0", "D1", "D2", "D3", "D4", "D5", "D6", "D7"];
/// Bytes read by one command: sandbox servers keep what a command prints in a log of 50 MB (measured, open-terminal
/// 0.14.5), in base64.
const READ: usize = 16 * 1024 * 1024;
/// How long one piece may take.
const LIMIT: Duration = Duration::from_secs(60);

const PUT: &str = r#"umask 077
take FILE TMP AT END LAST
dir=${FILE%/*}/
mkdir -p -- "$dir" || exit 1
tmp=$dir.$TMP
if [ "$AT" = 0 ]; then set -C; : >"$tmp" || exit 1; set +C; fi
[ "$(stat -c %s -- "$tmp")" = "$AT" ] && all D >>"$tmp" && [ "$(stat -c %s -- "$tmp")" = "$END" ] \
  && { [ "$LAST" = no ] || mv -fT -- "$tmp" "$FILE"; } || { rm -f -- "$tmp"; exit 1; }
"#;

// The file is opened first and looked at afterwards, through the descriptor: it must be a regular file whose only link
// is the very name that was asked for, so that nothing can be put in its place in between.
const GET: &str = r#"take FILE AT PIECE MOST
case $FILE in ./*) home=$(pwd -P; printf x); FILE=${home%?x}/${FILE#./};; esac
[ -f "$FILE" ] && [ ! -h "$FILE" ] || exit 44
exec 3<"$FILE" || exit 44
is=$(stat -L -c '%h %d %i %s %Z %F' /proc/self/fd/3)
[ "$is" = "$(stat -c '%h %d %i %s %Z %F' -- "$FILE")" ] || exit 44
[ "$(readlink /proc/self/fd/3; printf x)" = "$FILE
x" ] || exit 44
case $is in "1 "*" regular file" | "1 "*" regular empty file") ;; *) exit 44;; esac
set -- $is
[ "$4" -le "$MOST" ] || exit 45
printf '%s\n' "$is"
tail -c "+$((AT + 1))" <&3 | head -c "$PIECE"
"#;

/// Writes a file whole or not at all.
pub(super) async fn put(
    sandbox: &dyn Sandbox,
    account: &AccountId,
    path: &str,
    bytes: Bytes,
) -> Result<(), SandboxError> {
    let file = shell::path(path)?;
    let name = format!("innkeeper-{}", uuid::Uuid::new_v4().simple());
    let mut at = 0;
    loop {
        let end = bytes.len().min(at + PIECES.len() * shell::PIECE);
        let last = end == bytes.len();
        let mut vars = vec![
            ("FILE", file.clone().into_bytes()),
            ("TMP", name.clone().into_bytes()),
            ("AT", at.to_string().into_bytes()),
            ("END", end.to_string().into_bytes()),
            (
                "LAST",
                if last {
                    b"yes".to_vec()
                } else {
                    b"no".to_vec()
                },
            ),
        ];
        let pieces = bytes[at..end].chunks(shell::PIECE).map(<[u8]>::to_vec);
        vars.extend(PIECES.into_iter().zip(pieces));
        let done = sandbox.exec(account, command(PUT, vars, 1024)).await?;
        if done.code != 0 {
            return Err(SandboxError::Failed(format!("{path} could not be written")));
        }
        if last {
            return Ok(());
        }
        at = end;
    }
}

/// Reads a regular file with one link.
pub(super) async fn get(
    sandbox: &dyn Sandbox,
    account: &AccountId,
    path: &str,
    most: usize,
) -> Result<Bytes, SandboxError> {
    let file = shell::path(path)?;
    let mut whole = BytesMut::new();
    let mut first: Option<String> = None;
    loop {
        let vars = vec![
            ("FILE", file.clone().into_bytes()),
            ("AT", whole.len().to_string().into_bytes()),
            ("PIECE", READ.to_string().into_bytes()),
            ("MOST", most.to_string().into_bytes()),
        ];
        let done = sandbox
            .exec(account, command(GET, vars, READ + 1024))
            .await?;
        match done.code {
            0 => {}
            45 => return Err(SandboxError::TooMuch(most)),
            // 2: the shell could not open it.
            2 | 44 => return Err(SandboxError::Gone(path.to_owned())),
            code => {
                return Err(SandboxError::Failed(format!(
                    "{path} could not be read (exit code {code})"
                )));
            }
        }
        let (head, piece) = split_head(&done.out)
            .ok_or_else(|| SandboxError::Away(format!("{path} came back without its head")))?;
        let size = size_in(&head)
            .ok_or_else(|| SandboxError::Away(format!("{path} came back with an odd head")))?;
        whole.extend_from_slice(&piece);
        let same = first.get_or_insert_with(|| head.clone()) == &head;
        if !same || whole.len() > size || (piece.is_empty() && whole.len() < size) {
            return Err(SandboxError::Failed(format!(
                "{path} changed while it was read"
            )));
        }
        if whole.len() == size {
            return Ok(whole.freeze());
        }
    }
}

fn command(script: &str, vars: Vec<(&'static str, Vec<u8>)>, most: usize) -> Exec {
    Exec {
        script: shell::script(script),
        vars,
        limit: LIMIT,
        most,
    }
}

fn split_head(out: &Bytes) -> Option<(String, Bytes)> {
    let end = out.iter().position(|byte| *byte == b'\n')?;
    let head = String::from_utf8(out[..end].to_vec()).ok()?;
    Some((head, out.slice(end + 1..)))
}

fn size_in(head: &str) -> Option<usize> {
    head.split(' ').nth(3)?.parse().ok()
}
