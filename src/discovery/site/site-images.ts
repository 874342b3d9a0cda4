// The images of the written pages, by file name. `with { type: "file" }` puts them into the executable.

import claimOwner from "../../../docs/images/claim-owner.png" with { type: "file" };
import claimReviewPhone from "../../../docs/images/claim-review-phone.png" with { type: "file" };
import claimReview from "../../../docs/images/claim-review.png" with { type: "file" };
import consoleBilling from "../../../docs/images/console-billing.webp" with { type: "file" };
import consoleBudgets from "../../../docs/images/console-budgets.webp" with { type: "file" };
import consoleCall from "../../../docs/images/console-call.webp" with { type: "file" };
import consoleDeliveries from "../../../docs/images/console-deliveries.webp" with { type: "file" };
import consoleKeys from "../../../docs/images/console-keys.webp" with { type: "file" };
import consoleLogs from "../../../docs/images/console-logs.webp" with { type: "file" };
import consolePlayground from "../../../docs/images/console-playground.webp" with { type: "file" };
import consoleUsage from "../../../docs/images/console-usage.webp" with { type: "file" };
import modelPageImage from "../../../docs/images/model.webp" with { type: "file" };
import modelsPageImage from "../../../docs/images/models.webp" with { type: "file" };
import operatorReport from "../../../docs/images/operator-report.webp" with { type: "file" };

export const SITE_IMAGES: Readonly<Record<string, string>> = {
  "claim-owner.png": claimOwner,
  "claim-review-phone.png": claimReviewPhone,
  "claim-review.png": claimReview,
  "console-billing.webp": consoleBilling,
  "console-budgets.webp": consoleBudgets,
  "console-call.webp": consoleCall,
  "console-keys.webp": consoleKeys,
  "console-logs.webp": consoleLogs,
  "console-playground.webp": consolePlayground,
  "console-usage.webp": consoleUsage,
  "console-deliveries.webp": consoleDeliveries,
  "model.webp": modelPageImage,
  "models.webp": modelsPageImage,
  "operator-report.webp": operatorReport,
};
