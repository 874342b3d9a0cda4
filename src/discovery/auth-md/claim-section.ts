// auth.md: how a human claims the account. Written only if both endpoints are mounted.

import { claimGrantType, creditsText } from "../discovery-settings.ts";
import { type DocContext, joinParagraphs, markdownTable } from "../doc-context.ts";
import { TOKEN_ERRORS } from "../error-docs.ts";
import { START_CLAIM_ROUTE, CLAIM_TOKEN_ROUTE } from "../route-keys.ts";
import type { Section } from "./registration-sections.ts";

export function claimSection(context: DocContext): Section | undefined {
  if (!context.isMounted(START_CLAIM_ROUTE) || !context.isMounted(CLAIM_TOKEN_ROUTE))
    return undefined;
  const { settings } = context;
  const userCode = context.exampleField(START_CLAIM_ROUTE, "claim_attempt.user_code");
  return {
    title: "Hand the account to a human",
    text: joinParagraphs([
      `A human can claim the account at any time. Its keys and balance stay the same, and your key keeps working. The first claim of each human adds ${creditsText(settings.claimBonusCredits)}, unless the gateway has reached its daily limit for such bonuses.`,
      "### Start a claim",
      "Ask the human for their email address, and for consent to use it. They must sign in with exactly this address.",
      context.curl(START_CLAIM_ROUTE),
      context.responseExample(START_CLAIM_ROUTE),
      "Send the human `verification_uri_complete` and the `user_code`, with a message like this:",
      `> To claim the account that I created, open this link and sign in as human@example.com. Check that the page shows the code ${userCode}, then confirm. Enter the code only on that page; I will not ask you for it.`,
      "Do not open the link yourself. The code expires after `expires_in` seconds. Starting another claim invalidates the previous link and code.",
      "`503` with `provider_not_configured` means that humans cannot sign in to this gateway. Do not try again; tell your human. Your key keeps working.",
      "### Poll for the result",
      `Send this request every \`interval\` seconds until the response is neither \`authorization_pending\` nor \`slow_down\`. The grant type is \`${claimGrantType(settings)}\`.`,
      context.curl(CLAIM_TOKEN_ROUTE),
      "`200` means that the account is claimed:",
      context.responseExample(CLAIM_TOKEN_ROUTE),
      'Any other status returns `{"error": …}`:',
      markdownTable(
        ["`error`", "Status", "Meaning", "What to do"],
        TOKEN_ERRORS.map((each) => [
          `\`${each.error}\``,
          String(each.status),
          each.meaning,
          each.next,
        ]),
      ),
      "### After the claim",
      "The account is now a workspace that the human owns. To invite another person, start a claim with their email address: they join as a developer and nothing else changes. Their keys share the limit of your key, if it has one, until the owner gives them an allowance. A key with a limit cannot start a claim in a claimed account.",
    ]),
  };
}
