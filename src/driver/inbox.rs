//! Names under which the files of a request lie in the sandbox: safe, unique, and still recognisable.

/// Bytes of a file name, well under what file systems take (255).
const LONGEST: usize = 100;

/// Returns a name for each of `names`, in their order: the base name, made of letters, digits and `._-`, never hidden, never
/// an option, none twice.
pub fn safe_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    for name in names {
        let clean = clean(name);
        let unique = (1..)
            .map(|number| {
                if number == 1 {
                    clean.clone()
                } else {
                    numbered(&clean, number)
                }
            })
            .find(|candidate| {
                taken
                    .iter()
                    .all(|other| !other.eq_ignore_ascii_case(candidate))
            });
        taken.extend(unique);
    }
    taken
}

fn clean(name: &str) -> String {
    let base = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = base
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || matches!(c, '.' | '_' | '-') {
                c
            } else {
                '_'
            }
        })
        .collect();
    let plain = shorten(plain.trim_start_matches(['.', '-']).trim_end_matches('.'));
    if plain.is_empty() {
        "file".to_owned()
    } else {
        plain
    }
}

/// Keeps the ending, which says what the file is.
fn shorten(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let (stem, ending) = split(name);
    let ending = if ending.len() <= 16 { ending } else { "" };
    let mut kept = String::new();
    for c in stem.chars() {
        if kept.len() + c.len_utf8() + ending.len() > LONGEST {
            break;
        }
        kept.push(c);
    }
    kept + ending
}

fn numbered(name: &str, number: u32) -> String {
    let (stem, ending) = split(name);
    format!("{stem}-{number}{ending}")
}

fn split(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(at) if at > 0 => name.split_at(at),
        _ => (name, ""),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_lose_their_paths_and_their_tricks() {
        let cases = [
            ("data.csv", "data.csv"),
            ("../../.claude/settings.json", "settings.json"),
            ("x/../../CLAUDE.md", "CLAUDE.md"),
            ("a\\..\\b", "b"),
            ("-rf", "rf"),
            ("", "file"),
            (".", "file"),
            ("..", "file"),
            ("nul\0byte.txt", "nul_byte.txt"),
            ("two words.txt", "two_words.txt"),
            ("Umsätze 2026.xlsx", "Umsätze_2026.xlsx"),
            ("$(touch p).sh", "__touch_p_.sh"),
        ];
        for (given, safe) in cases {
            assert_eq!(safe_names([given]), [safe], "{given:?}");
        }
    }

    #[test]
    fn equal_names_are_told_apart() {
        assert_eq!(
            safe_names(["a.csv", "A.csv", "a.csv", "b"]),
            ["a.csv", "A-2.csv", "a-3.csv", "b"]
        );
    }

    proptest! {
        #[test]
        fn any_names_become_safe_and_unique(names in prop::collection::vec(any::<String>(), 0..8)) {
            let safe = safe_names(names.iter().map(String::as_str));
            prop_assert_eq!(safe.len(), names.len());
            for (at, name) in safe.iter().enumerate() {
                prop_assert!(!name.is_empty() && name.len() <= LONGEST + 8);
                prop_assert!(!name.starts_with(['.', '-']));
                prop_assert!(!name.contains(['/', '\\', '\0', '\n', ' ', '$', '`', '"', '\'']));
                prop_assert!(safe[..at].iter().all(|other| !other.eq_ignore_ascii_case(name)));
            }
        }
    }
}
