export type { MeteredConsumptions } from '../consumption-samples.ts'
export {
  type HealthServer,
  type HealthServerOptions,
  healthServer,
} from './server.ts'
