-- The record as bytes instead of base64 text. Rows of earlier versions keep theirs in sealed_response.
alter table stored_response add column sealed_record bytea;

-- Only recovery looks for a status, so each stored response need not be in this index.
drop index if exists stored_response_by_status;

create index if not exists stored_response_in_progress on stored_response (created_at)
where status = 'in_progress';
