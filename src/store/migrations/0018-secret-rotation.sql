-- Which master secret the hash of an API key was made with. Null: with the secret before the column was added.
alter table api_key add column secret_id text;
