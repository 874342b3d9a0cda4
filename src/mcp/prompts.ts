// Prompts: tasks that a person starts from the menu of their client. Each tells the model which tools to call, and what to ask.

export interface Prompt {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly arguments: readonly {
    readonly name: string;
    readonly description: string;
    readonly required: boolean;
  }[];
  readonly text: (args: Readonly<Record<string, string>>) => string;
}

const NEVER_OPEN = "Never open the link yourself.";

export const PROMPTS: readonly Prompt[] = [
  {
    name: "start",
    title: "Get started",
    description: "Get an account, and call the cheapest model.",
    arguments: [],
    text: () =>
      "Call get_balance. If it says that the key is missing, ask me whether I want to sign in with this client or get a new account, and call create_account only for the latter. Then call the cheapest model of list_models with send_message, and tell me what the call cost and what is left.",
  },
  {
    name: "claim",
    title: "Claim the account",
    description: "Make the account yours: its key keeps working.",
    arguments: [
      { name: "email", description: "The address that you sign in with.", required: true },
    ],
    text: ({ email = "" }) =>
      `Call start_claim with the email ${email}. Give me its link and its code. ${NEVER_OPEN} Then call poll_claim every \`interval\` seconds until I have decided, and tell me the result.`,
  },
  {
    name: "buy_credits",
    title: "Buy credits",
    description: "Create an invoice, and pay it on a page.",
    arguments: [
      { name: "amount_usd", description: "For how many US dollars: 10.", required: true },
    ],
    text: ({ amount_usd: amount = "" }) =>
      `Call create_invoice with amount_usd ${amount}. Tell me its total with the fee, and give me its \`pay_url\`. ${NEVER_OPEN} When I say that I paid, call get_invoice and get_balance, and tell me what they say.`,
  },
];

/** Names the first required argument that is missing. */
export function missingArgument(
  { arguments: known }: Prompt,
  args: Readonly<Record<string, string>>,
): string | undefined {
  return known.find(({ name, required }) => required && (args[name] ?? "") === "")?.name;
}
