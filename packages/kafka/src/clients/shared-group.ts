import type { ConsumerSettings } from '../options.ts'

const SIGNATURE = 'onceward:'

/** What a member tells its group, so that another guard's consumer does not join it. */
export const signatureOf = (consumer: string): Buffer => Buffer.from(`${SIGNATURE}${consumer}`)

/** The guard's consumer of a member; undefined for members that do not send it. */
export function signedBy(userData: unknown): string | undefined {
  const text = String(userData)
  return text.startsWith(SIGNATURE) ? text.slice(SIGNATURE.length) : undefined
}

/** Other consumers than this one among those of a group's members. */
export function strangersTo(
  own: string,
  consumers: readonly (string | undefined)[],
): readonly string[] {
  const others = new Set(consumers.filter((each) => each !== undefined && each !== own))
  return [...others] as readonly string[]
}

/** trap T39: two consumers in one group share its records, so each sees only a part of them. */
export const sharedGroup = (
  { consumer: { groupId } }: Pick<ConsumerSettings, 'consumer'>,
  consumer: string,
  strangers: readonly string[],
): string =>
  `Group '${groupId}' has members of the consumer '${strangers.join("', '")}'; as another one, '${consumer}' would ` +
  'get a part of the records and they the rest. Leave `groupId` out, or give each consumer a group of its own.'
