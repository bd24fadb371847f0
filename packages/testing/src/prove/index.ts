export { ProofError } from './errors.ts'
export type { ProofDatabase, ProveOptions } from './options.ts'
export { type BrokerAddress, type KafkaConfig, openPlace, type SqsConfig } from './places/index.ts'
export type { Place, PlaceMessage } from './places/place.ts'
export {
  PROVE_BROKERS,
  type Proof,
  type ProveBroker,
  type ProveCommon,
  type ProveEnv,
  type ProvePlaces,
  type ProveVariables,
} from './proof.ts'
export { prove } from './prove.ts'
export { isExact, type ProveResult } from './result.ts'
export type { GivenServers } from './servers.ts'
export type { ProveRow, WrongEvent } from './stories.ts'
