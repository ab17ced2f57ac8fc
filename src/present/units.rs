//! Numbers as people read them.

use std::time::Duration;

/// Returns whole seconds as `34 s`, `2 min 5 s` or `1 h 3 min`.
pub fn duration(span: Duration) -> String {
    let all = span.as_secs();
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    match (hours, minutes, seconds) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, 0, _) => format!("{hours} h"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Returns bytes as `512 bytes`, `1.5 KiB` or `26 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        let unit = if count == 1 { "byte" } else { "bytes" };
        return format!("{count} {unit}");
    }
    let (mut tenths, mut unit) = (count * 10 / 1024, 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    let name = UNITS[unit];
    match tenths % 10 {
        0 => format!("{} {name}", tenths / 10),
        _ if tenths >= 100 => format!("{} {name}", tenths / 10),
        rest => format!("{}.{rest} {name}", tenths / 10),
    }
}

/// Returns `1 step` or `6 steps`.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_say_them() {
        let cases = [
            (0, "0 s"),
            (34_900, "34 s"),
            (60_000, "1 min"),
            (125_000, "2 min 5 s"),
            (3_600_000, "1 h"),
            (3_785_000, "1 h 3 min"),
        ];
        for (millis, text) in cases {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn sizes_read_as_people_say_them() {
        let cases = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (26 * 1024 * 1024, "26 MiB"),
            (26 * 1024 * 1024 + 500_000, "26 MiB"),
            (3 << 40, "3 TiB"),
            (u64::MAX / 10, "1677721 TiB"),
        ];
        for (count, text) in cases {
            assert_eq!(bytes(count), text);
        }
    }
}
