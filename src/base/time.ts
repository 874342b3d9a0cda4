// Days are those of UTC, written as the specification writes dates.

const DAY_MS = 86_400_000;

let cached = { number: 0, text: "1970-01-01" };

/** "2026-11-21". Most ask for the same day as whoever asked before. */
export function utcDay(at: number): string {
  const number = Math.floor(at / DAY_MS);
  if (cached.number !== number) cached = { number, text: new Date(at).toISOString().slice(0, 10) };
  return cached.text;
}
