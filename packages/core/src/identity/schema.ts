import type { StandardSchemaV1 } from '@standard-schema/spec'
import { isThenable, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { InvalidPayloadError } from '../model/errors.ts'

const ISSUES_NAMED = 5

/**
 * Returns the payload with the schema's defaults and transforms applied.
 *
 * @throws {@link InvalidPayloadError} with the first issues and their places.
 * @see https://standardschema.dev
 */
export function validate<Payload>(
  schema: StandardSchemaV1<unknown, Payload>,
  value: unknown,
): MaybeAsync<Payload> {
  const result = schema['~standard'].validate(value)
  return isThenable(result) ? Promise.resolve(result).then(toPayload) : toPayload(result)
}

function toPayload<Payload>(result: StandardSchemaV1.Result<Payload>): Payload {
  if (!result.issues) return result.value
  const named = result.issues.slice(0, ISSUES_NAMED).map(toSentence)
  const more = result.issues.length - named.length
  const rest = more > 0 ? ` (and ${more} more)` : ''
  throw new InvalidPayloadError(`The payload does not fit the schema: ${named.join('; ')}${rest}`)
}

function toSentence({ message, path = [] }: StandardSchemaV1.Issue): string {
  const place = path.map((segment) => String(typeof segment === 'object' ? segment.key : segment))
  return place.length === 0 ? message : `${place.join('.')}: ${message}`
}
