-- Only responses in progress are searched by status, so the others need no entry.
create index if not exists stored_response_in_progress on stored_response (created_at) where status = 'in_progress';

drop index if exists stored_response_by_status;
