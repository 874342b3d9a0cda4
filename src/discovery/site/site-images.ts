// The images of the written pages, by file name. `with { type: "file" }` puts them into the executable.

import claimClaimedByOther from "../../../docs/images/claim-claimed-by-other.png" with { type: "file" };
import claimCode from "../../../docs/images/claim-code.png" with { type: "file" };
import claimDeclined from "../../../docs/images/claim-declined.png" with { type: "file" };
import claimDeveloper from "../../../docs/images/claim-developer.png" with { type: "file" };
import claimExpired from "../../../docs/images/claim-expired.png" with { type: "file" };
import claimInvalid from "../../../docs/images/claim-invalid.png" with { type: "file" };
import claimInvited from "../../../docs/images/claim-invited.png" with { type: "file" };
import claimLanding from "../../../docs/images/claim-landing.png" with { type: "file" };
import claimLocked from "../../../docs/images/claim-locked.png" with { type: "file" };
import claimOwner from "../../../docs/images/claim-owner.png" with { type: "file" };
import claimReviewPhone from "../../../docs/images/claim-review-phone.png" with { type: "file" };
import claimReview from "../../../docs/images/claim-review.png" with { type: "file" };
import claimSuperseded from "../../../docs/images/claim-superseded.png" with { type: "file" };
import claimWrongAccount from "../../../docs/images/claim-wrong-account.png" with { type: "file" };
import claimWrongCode from "../../../docs/images/claim-wrong-code.png" with { type: "file" };
import consoleBilling from "../../../docs/images/console-billing.webp" with { type: "file" };
import consoleBudgets from "../../../docs/images/console-budgets.webp" with { type: "file" };
import consoleCall from "../../../docs/images/console-call.webp" with { type: "file" };
import consoleKeys from "../../../docs/images/console-keys.webp" with { type: "file" };
import consoleLogs from "../../../docs/images/console-logs.webp" with { type: "file" };
import consolePlayground from "../../../docs/images/console-playground.webp" with { type: "file" };
import consoleUsage from "../../../docs/images/console-usage.webp" with { type: "file" };
import consoleWebhooks from "../../../docs/images/console-webhooks.webp" with { type: "file" };
import modelPageImage from "../../../docs/images/model.webp" with { type: "file" };
import modelsPageImage from "../../../docs/images/models.webp" with { type: "file" };
import operatorReport from "../../../docs/images/operator-report.webp" with { type: "file" };

export const SITE_IMAGES: Readonly<Record<string, string>> = {
  "claim-claimed-by-other.png": claimClaimedByOther,
  "claim-code.png": claimCode,
  "claim-declined.png": claimDeclined,
  "claim-developer.png": claimDeveloper,
  "claim-expired.png": claimExpired,
  "claim-invalid.png": claimInvalid,
  "claim-invited.png": claimInvited,
  "claim-landing.png": claimLanding,
  "claim-locked.png": claimLocked,
  "claim-owner.png": claimOwner,
  "claim-review-phone.png": claimReviewPhone,
  "claim-review.png": claimReview,
  "claim-superseded.png": claimSuperseded,
  "claim-wrong-account.png": claimWrongAccount,
  "claim-wrong-code.png": claimWrongCode,
  "console-billing.webp": consoleBilling,
  "console-budgets.webp": consoleBudgets,
  "console-call.webp": consoleCall,
  "console-keys.webp": consoleKeys,
  "console-logs.webp": consoleLogs,
  "console-playground.webp": consolePlayground,
  "console-usage.webp": consoleUsage,
  "console-webhooks.webp": consoleWebhooks,
  "model.webp": modelPageImage,
  "models.webp": modelsPageImage,
  "operator-report.webp": operatorReport,
};
