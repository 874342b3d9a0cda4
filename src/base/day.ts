// Days are those of UTC, written as the specification writes dates.

const DAY_MS = 86_400_000;

let latest = { number: 0, text: "1970-01-01" };

/** "2026-11-21". Most ask for the same day as whoever asked before. */
export function dayOf(at: number): string {
  const number = Math.floor(at / DAY_MS);
  if (latest.number !== number) latest = { number, text: new Date(at).toISOString().slice(0, 10) };
  return latest.text;
}
