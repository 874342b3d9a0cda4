/** The error message of a rejected promise; throws if the promise is fulfilled. */
export async function rejectionMessage(promise: Promise<unknown>): Promise<string> {
  const [outcome] = await Promise.allSettled([promise]);
  if (outcome.status === "fulfilled") throw new Error("the promise was fulfilled");
  const { reason }: { reason: unknown } = outcome;
  return reason instanceof Error ? reason.message : String(reason);
}
