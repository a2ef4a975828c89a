-- Under which drivers the agents of a hardware have measured.
CREATE TABLE drivers (
    hardware TEXT COLLATE "C" NOT NULL,
    driver   TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (hardware, driver)
);

-- Of what is measured again for the sake of a driver, which one: only its agents get it.
ALTER TABLE work ADD COLUMN driver TEXT COLLATE "C";

-- No problem is measured twice, but for a confirmation and for another driver.
DROP INDEX work_once;
CREATE UNIQUE INDEX work_once ON work (hardware, problem, (purpose = 'confirm'), (COALESCE(driver, '')));
