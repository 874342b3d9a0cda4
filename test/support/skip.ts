// Skips tests with a reason. The test runner (test/run.ts) collects the reasons and lists them at the end of the run.

export const SKIP_PREFIX = "skipped: ";

/** For `skipIf`: true if `isAvailable` is false. `reason` names what is missing and how to provide it. */
export function skipUnless(isAvailable: boolean, reason: string): boolean {
  // On standard error, where Bun names the test file: the runner finds the file by that line.
  if (!isAvailable) console.error(`${SKIP_PREFIX}${reason}`);
  return !isAvailable;
}
