//! Files of `NAME=value` lines. A value is never part of what is said about a fault.

use secrecy::SecretString;

use super::examine::OWN_VARIABLES;

/// Reads such a file: blank lines and lines that begin with `#` say nothing, `export ` before a name is taken, and quotes around
/// a whole value are not part of it.
pub(super) fn read(text: &str) -> Result<Vec<(String, SecretString)>, String> {
    let mut all: Vec<(String, SecretString)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = number + 1;
        let (name, value) = line
            .strip_prefix("export ")
            .unwrap_or(line)
            .split_once('=')
            .ok_or_else(|| format!("line {at} is no NAME=value"))?;
        let name = name.trim();
        if !is_name(name) {
            return Err(format!(
                "line {at} does not begin with the name of a variable"
            ));
        }
        if OWN_VARIABLES.contains(&name) || name.starts_with("INNKEEPER_") {
            return Err(format!("line {at} sets {name}, which the bot sets itself"));
        }
        if all.iter().any(|(other, _)| other == name) {
            return Err(format!("line {at} sets {name} a second time"));
        }
        all.push((name.to_owned(), SecretString::from(unquoted(value.trim()))));
    }
    Ok(all)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn unquoted(value: &str) -> &str {
    ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn names_and_values_are_read_as_they_stand() {
        let all = read("# for pushing\n\nTOKEN=a=b c\nexport HOST = \"x y\"\nEMPTY=\nQUOTE='\n");
        let all: Vec<(String, String)> = all
            .unwrap()
            .into_iter()
            .map(|(name, value)| (name, value.expose_secret().to_owned()))
            .collect();
        let expected = [
            ("TOKEN", "a=b c"),
            ("HOST", "x y"),
            ("EMPTY", ""),
            ("QUOTE", "'"),
        ];
        assert_eq!(
            all,
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn a_fault_names_its_line_and_never_the_value() {
        for (text, what) in [
            ("A=1\nhush", "line 2 is no NAME=value"),
            (
                "a b=hush",
                "line 1 does not begin with the name of a variable",
            ),
            ("=hush", "line 1 does not begin with the name of a variable"),
            ("A=hush\nA=hush", "line 2 sets A a second time"),
            (
                "ANTHROPIC_API_KEY=hush",
                "line 1 sets ANTHROPIC_API_KEY, which the bot sets itself",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), what);
        }
    }
}
