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
};
