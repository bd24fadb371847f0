/** Types of the file that `npx onceward prove` runs. They come with `@onceward/testing`, which `prove` needs. */
export type {
  Proof,
  ProveBroker,
  ProveCommon,
  ProveEnv,
  ProvePlaces,
} from '@onceward/testing/prove'
