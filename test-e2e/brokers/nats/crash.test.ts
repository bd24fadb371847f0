import { describeCrashes } from '../../crash/suite.ts'

describeCrashes('nats')
