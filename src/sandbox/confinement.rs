//! Tries whether the agent can be confined for an account: it really confines a command, as the agent's CLI would.

use std::time::Duration;

use super::{Confinement, Exec, Probe, Sandbox, SandboxError};
use crate::domain::ids::AccountId;

/// Prints the home, then one word for what was found, then what bubblewrap said.
const SCRIPT: &str = r#"home=$(pwd -P; printf x); printf '%s\0' "${home%?x}"
command -v bwrap >/dev/null || { printf 'no-bwrap\0'; exit 0; }
command -v socat >/dev/null || { printf 'no-socat\0'; exit 0; }
said=$(bwrap --new-session --die-with-parent --unshare-user --unshare-pid --unshare-net \
  --ro-bind / / --dev /dev --proc /proc sh -c '[ $$ -le 9 ] && [ ! -e "/proc/$1" ]' sh "$$" 2>&1) \
  && printf 'works\0' || printf 'refused\0%s' "$said" | head -c 400
"#;

/// Asks an account for its home, and tries confinement there.
pub(super) async fn probe(
    sandbox: &dyn Sandbox,
    account: &AccountId,
) -> Result<Probe, SandboxError> {
    let exec = Exec {
        script: SCRIPT.to_owned(),
        vars: vec![],
        limit: Duration::from_secs(20),
        most: 16 * 1024,
    };
    let done = sandbox.exec(account, exec).await?;
    read(&done.out).ok_or_else(|| {
        SandboxError::Away(format!(
            "the probe of account {account} gave nothing readable"
        ))
    })
}

fn read(out: &[u8]) -> Option<Probe> {
    let text = std::str::from_utf8(out).ok()?;
    let mut parts = text.splitn(3, '\0');
    let home = parts.next().filter(|home| home.starts_with('/'))?;
    let confinement = match parts.next()? {
        "works" => Confinement::Works,
        "no-bwrap" => Confinement::Missing(missing("bubblewrap (bwrap)", "bubblewrap")),
        "no-socat" => Confinement::Missing(missing("socat", "socat")),
        _ => Confinement::Missing(refused(parts.next().unwrap_or_default().trim())),
    };
    Some(Probe {
        home: home.to_owned(),
        confinement,
    })
}

fn missing(program: &str, package: &str) -> String {
    format!("{program} is missing in the sandbox: install the package {package} there")
}

fn refused(said: &str) -> String {
    format!(
        "bubblewrap cannot confine a command in the sandbox ({said}): allow user namespaces to ordinary users there \
         (sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 and \
         kernel.apparmor_restrict_unprivileged_userns=0 where they exist; a container needs a seccomp and AppArmor \
         profile that allow them, and an unmasked /proc)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_says_how_to_mend_it() {
        for (out, words) in [
            ("/home/a\0no-bwrap\0", "install the package bubblewrap"),
            ("/home/a\0no-socat\0", "install the package socat"),
            (
                "/home/a\0refused\0bwrap: No permissions",
                "(bwrap: No permissions): allow user namespaces",
            ),
        ] {
            let probe = read(out.as_bytes()).unwrap();
            assert_eq!(probe.home, "/home/a");
            let Confinement::Missing(text) = probe.confinement else {
                panic!("{out:?} counts as confined")
            };
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn only_the_exact_word_counts_as_confined() {
        assert_eq!(
            read(b"/h\0works\0").unwrap().confinement,
            Confinement::Works
        );
        assert_ne!(
            read(b"/h\0worksnot\0").unwrap().confinement,
            Confinement::Works
        );
        assert_eq!(read(b"h\0works\0"), None);
        assert_eq!(read(b"/h"), None);
        assert_eq!(read(b""), None);
    }
}
