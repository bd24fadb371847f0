import type { ProveBroker, ProvePlaces } from '../proof.ts'

export interface PlaceMessage {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** A new queue, topic or stream with its dead-letter place, as the one sees it who sends. Disposing it removes both. */
export interface Place<Broker extends ProveBroker> extends AsyncDisposable {
  /** Where consumers find it. */
  readonly where: ProvePlaces[Broker]
  /** The environment variables that say the same. */
  readonly variables: Readonly<Record<string, string>>
  /** Resolves when the broker has all of them. */
  send(messages: readonly PlaceMessage[]): Promise<void>
  /** Messages that are not acknowledged. RabbitMQ does not count those in flight. */
  waiting(): Promise<number>
  /** Messages that were dead-lettered. */
  dead(): Promise<number>
}
