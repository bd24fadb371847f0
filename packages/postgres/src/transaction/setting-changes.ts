import { statementTokens } from './statement-tokens.ts'

/** Statements of these kinds change no setting, unless a function that they call does. */
const PLAIN = new Set(
  'select with insert update delete merge values table savepoint release rollback lock fetch close declare copy notify truncate show'.split(
    ' ',
  ),
)

/** Words before a parenthesis that call no function. */
const NO_CALL = new Set(
  (
    'select distinct from where having by on using as and or not in any some all exists between like ilike is case when ' +
    'then else end values row array limit offset union intersect except lateral returning set into conflict over filter ' +
    'within group order with recursive materialized default nothing do join left right inner cross full only table key ' +
    'numeric decimal varchar char character bpchar bit varying float time timestamp timestamptz interval'
  ).split(' '),
)

/** Words after which a name with a parenthesis is a table or an alias. */
const NAMES_TABLE = new Set(['into', 'as', 'with', 'recursive', 'join', 'update', 'table', 'only'])

/** Functions of PostgreSQL that handlers use often. None of them changes a setting. */
const KNOWN = new Set(
  (
    'count sum min max avg array_agg string_agg json_agg jsonb_agg json_object_agg jsonb_object_agg bool_and bool_or every ' +
    'coalesce nullif greatest least now clock_timestamp statement_timestamp transaction_timestamp current_date ' +
    'date_trunc date_part extract age make_interval make_date make_timestamp make_timestamptz to_timestamp to_char ' +
    'to_date to_number lower upper length char_length octet_length substring substr replace regexp_replace ' +
    'regexp_match regexp_matches split_part concat concat_ws format left right lpad rpad trim btrim ltrim rtrim ' +
    'position strpos starts_with repeat reverse md5 sha256 digest encode decode convert_to convert_from abs ceil ' +
    'ceiling floor round trunc mod power sqrt sign random unnest generate_series array_append array_length cardinality ' +
    'array_position array_remove array_to_string string_to_array json_build_object jsonb_build_object ' +
    'json_build_array jsonb_build_array to_json to_jsonb row_to_json json_to_recordset jsonb_to_recordset ' +
    'json_populate_recordset jsonb_populate_recordset json_array_elements jsonb_array_elements ' +
    'json_array_elements_text jsonb_array_elements_text json_each jsonb_each json_each_text jsonb_each_text ' +
    'jsonb_set json_typeof jsonb_typeof jsonb_array_length json_array_length json_extract_path jsonb_extract_path ' +
    'gen_random_uuid uuidv4 uuidv7 hashtext hashtextextended row_number rank dense_rank lag lead first_value ' +
    'last_value nth_value ntile nextval currval lastval setval pg_advisory_xact_lock pg_try_advisory_xact_lock ' +
    'pg_advisory_lock pg_advisory_unlock pg_sleep pg_backend_pid pg_notify txid_current pg_current_xact_id ' +
    'current_setting version to_tsvector to_tsquery plainto_tsquery websearch_to_tsquery ts_rank cast exists'
  ).split(' '),
)

/** A longer text is not looked through, and may change settings. */
const MOST_CHARACTERS = 50_000
/** Handlers send few different texts, but some put values into them. */
const REMEMBERED = 1_000
/** Of all remembered texts. Texts with values in them may be long. */
const REMEMBERED_CHARACTERS = 1_000_000
const remembered = new Map<string, boolean>()
let characters = 0

/**
 * Whether a text of one or more statements may change a setting or the role of its session, as far as the text shows. A
 * function that is not known may. A trigger, a policy, a view or an operator that calls such a function is not seen.
 */
export function mayChangeSettings(text: string): boolean {
  const known = remembered.get(text)
  if (known !== undefined) return known
  if (text.length > MOST_CHARACTERS) return true
  const found = changesSettings(text)
  remember(text, found)
  return found
}

function remember(text: string, found: boolean): void {
  characters += text.length
  if (remembered.size >= REMEMBERED || characters > REMEMBERED_CHARACTERS) {
    remembered.clear()
    characters = text.length
  }
  remembered.set(text, found)
}

function changesSettings(text: string): boolean {
  // With \ in a text, what is inside of a string depends on a setting.
  const readings = text.includes('\\') ? [false, true] : [false]
  return readings.some((escapes) => statementsOf(text, escapes).some(mayChange))
}

type Statement = readonly string[]

function statementsOf(text: string, escapes: boolean): readonly Statement[] {
  const statements: string[][] = [[]]
  for (const token of statementTokens(text, escapes)) {
    if (token === ';') statements.push([])
    else statements.at(-1)?.push(token)
  }
  return statements
}

function mayChange(statement: Statement): boolean {
  const first = statement.find((token) => token !== '(')
  if (first === undefined) return false
  if (!PLAIN.has(first)) return true
  return statement.some((token, at) => token === '(' && callsUnknown(statement, at))
}

/** Whether the name before a parenthesis is that of a function that is not known. */
function callsUnknown(statement: Statement, at: number): boolean {
  const name = statement[at - 1]
  if (name === undefined || name === '(') return false
  let start = at - 1
  while (statement[start - 1] === '.') start -= 2
  const isQualified = start < at - 1
  if (NAMES_TABLE.has(statement[start - 1] ?? '')) return false
  if (isQualified) return statement[start] !== 'pg_catalog' || !KNOWN.has(name)
  return !NO_CALL.has(name) && !KNOWN.has(name)
}
