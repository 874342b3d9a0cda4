/** The message with which a promise is rejected; throws where it is kept. */
export async function rejectionMessage(promise: Promise<unknown>): Promise<string> {
  const [outcome] = await Promise.allSettled([promise]);
  if (outcome.status === "fulfilled") throw new Error("the promise was kept");
  const { reason }: { reason: unknown } = outcome;
  return reason instanceof Error ? reason.message : String(reason);
}
