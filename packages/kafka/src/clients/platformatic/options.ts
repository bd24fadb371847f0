import type { BaseOptions } from '@platformatic/kafka'

/** Options of {@link platformatic}: those of every client of `@platformatic/kafka`, and of its group. */
export interface PlatformaticOptions extends BaseOptions {
  /**
   * `consumer` is the protocol of KIP-848 (Kafka 4.0): the broker assigns, and members that keep their partitions go on.
   *
   * @defaultValue 'classic'
   */
  readonly groupProtocol?: 'classic' | 'consumer' | undefined
  /** For a static member. */
  readonly groupInstanceId?: string | undefined
  /** Of the broker, with `groupProtocol: 'consumer'`. */
  readonly groupRemoteAssignor?: string | undefined
}
