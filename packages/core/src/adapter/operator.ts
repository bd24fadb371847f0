import type { Delivery, DeliverySource } from '../model/delivery.ts'
import { ConfigurationError } from '../model/errors.ts'
import type { GuardSettings } from '../model/guard-port.ts'
import type { Logger } from '../model/logger.ts'
import { type ClassifiedError, isFatal } from './classified-error.ts'
import type { Findings } from './findings.ts'

/** A broker that an operator named. */
export interface BrokerAddress {
  /** The URL up to the `?`. May hold a password. */
  readonly url: string
  /** The parameters after the `?`. */
  readonly params: URLSearchParams
  /** The environment variables, for credentials that are not in the URL. */
  readonly env: Readonly<Record<string, string | undefined>>
}

/** A broker as the command line asks it. It connects when it is first asked. */
export interface OperatedBroker extends AsyncDisposable {
  /** Where it is, without credentials. */
  readonly place: string
  /**
   * Answers what a consumer with a guard of these settings would refuse or warn of at its start, and changes nothing.
   * Rejects with the client's error if the broker refuses it. While the broker is silent, the call may not end.
   *
   * @throws {@link ConfigurationError} when the address does not say what to look at.
   */
  inspect(guard: GuardSettings): Promise<Findings>
  /** Whether the address names the queue that a delivery came from, or no queue at all. */
  owns(source: DeliverySource): boolean
  /** Resolves if the queue is there. @throws {@link ConfigurationError} if it is not, else the client's error. */
  ready(source: DeliverySource): Promise<void>
  /**
   * Sends the message of a stored delivery to its queue again, with its own key, properties and headers, and without
   * those that a broker or onceward wrote on it. Resolves once the broker has confirmed it.
   *
   * @throws {@link ConfigurationError} when the broker has certainly not taken it. After other errors it may have.
   */
  send(delivery: Delivery): Promise<void>
}

/** Every adapter exports one as `operate` from `./operator`. @throws {@link ConfigurationError} for a wrong address. */
export type OperateBroker = (address: BrokerAddress) => OperatedBroker

const ignore = (): void => undefined

/** Runs a check of an adapter, and answers what it logs and refuses. Other errors are the client's. */
export async function findingsOf(check: (logger: Logger) => Promise<unknown>): Promise<Findings> {
  const warnings: string[] = []
  const warn = (fields: object, message: string): void => {
    warnings.push(warningText(fields, message))
  }
  try {
    await check({ debug: ignore, info: ignore, error: ignore, warn })
    return { problems: [], warnings }
  } catch (error) {
    if (!isFatal(error)) throw error
    return { problems: error.message.split('\n'), warnings }
  }
}

/** Of a warning that `reportFindings` logs, or of one that says what could not be read and how to allow it. */
function warningText(fields: object, message: string): string {
  const field = (name: string): string => String(Reflect.get(fields, name) ?? '')
  return field('finding') || `${sentence(message)}: ${field('reason')}. ${sentence(field('fix'))}.`
}

/** Short, because an operator waits. */
export const OPERATOR_CALL_MS = 5_000

/** Makes the function that rethrows an error of sending: as {@link notSent} if it is of one of these kinds. */
export function refusalOf<Kind extends string>(
  classifyError: (error: unknown) => ClassifiedError<Kind>,
  refused: readonly Kind[],
): (error: unknown) => never {
  return (error) => {
    const { kind, text } = classifyError(error)
    throw refused.includes(kind) ? notSent(text, error) : error
  }
}

/** The error of a message that the broker has certainly not taken. */
export function notSent(text: string, cause: unknown): ConfigurationError {
  return new ConfigurationError(`The broker refused the message (${text}).`, { cause })
}

const sentence = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1)

/** @throws {@link ConfigurationError} for a parameter that has no meaning, because it would be ignored. */
export function refuseParameters(params: URLSearchParams, known: readonly string[]): void {
  const unknown = [...params.keys()].find((name) => !known.includes(name))
  if (unknown === undefined) return
  throw new ConfigurationError(
    `The address of the broker has no parameter \`${unknown}\`. Expected one of ${known.join(', ')}.`,
  )
}
